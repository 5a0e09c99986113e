#pragma once
// This header lists the policies and has what their rules share. A new policy is a function in a
// file of this folder, and its name appears twice below.

#include "decode/request/blockwise.h"
#include "decode/request/policy.h"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

struct PolicyKind {
  const char* name;
  std::unique_ptr<Policy> (*make)(const PolicySetup& setup);
  std::vector<OptionSpec> options; // added to the options of every policy, or replacing one
  // false: the canvas begins with noise, or tokens move, so a position may have a token that was
  // drawn for another one.
  bool writes_in_place = true;
};

namespace policy_files {

PolicyKind ancestral();
PolicyKind autoregressive();
PolicyKind bd3lm();
PolicyKind cola();
PolicyKind confidence_remasking();
PolicyKind credit();
PolicyKind ddim();
PolicyKind diffusion_gemma();
PolicyKind dream();
PolicyKind editflow();
PolicyKind embedding();
PolicyKind entropy_bound();
PolicyKind factor();
PolicyKind fast_dllm_v2();
PolicyKind first_hitting();
PolicyKind frechet();
PolicyKind hierarchy();
PolicyKind latent();
PolicyKind llada2();
PolicyKind llada22();
PolicyKind low_confidence();
PolicyKind multi_block();
PolicyKind nemotron();
PolicyKind random();
PolicyKind remdm();
PolicyKind sdar();
PolicyKind self_speculation();
PolicyKind spd();
PolicyKind threshold();
PolicyKind uniform();
PolicyKind wedlm();

inline constexpr PolicyKind (*kTable[])() = {
    ancestral,
    autoregressive,
    bd3lm,
    cola,
    confidence_remasking,
    credit,
    ddim,
    diffusion_gemma,
    dream,
    editflow,
    embedding,
    entropy_bound,
    factor,
    fast_dllm_v2,
    first_hitting,
    frechet,
    hierarchy,
    latent,
    llada2,
    llada22,
    low_confidence,
    multi_block,
    nemotron,
    random,
    remdm,
    sdar,
    self_speculation,
    spd,
    threshold,
    uniform,
    wedlm,
};

} // namespace policy_files

// Several unmasking rules share the planned counts, the choice among candidates by confidence, and
// the graph forms of both.

// --- rules that predict every open position of a block and choose by the predictions alone ---

// Predictions that may be committed. The list is not empty and does not contain the mask token.
using Candidates = std::vector<const Prediction*>;
// Returns the indices of the candidates to commit.
using Select = std::function<std::vector<size_t>(const Candidates& candidates)>;

// Returns a threshold rounded to f32, the type of probabilities.
inline double as_f32(double value) {
  return static_cast<double>(static_cast<float>(value));
}

std::vector<double> confidences(const Candidates& candidates);

// The candidates of a step.
struct Eligible {
  Candidates candidates;
  std::vector<size_t> index; // of each candidate in the predictions
};
// Returns the candidates of a step. Fails with failed_precondition if every prediction is the mask
// token, because the request would not end.
Eligible eligible(std::span<const Prediction> predictions, int32_t mask_id);

class ConfidencePolicy final : public BlockwisePolicy {
public:
  // top: number of likeliest tokens that a prediction lists.
  ConfidencePolicy(const PolicySetup& setup, Select select, int64_t top = 1,
                   LoopMaker make_loop = {});
  PredictionNeeds needs() const override { return {.top = top_}; }

private:
  int64_t top_;
};

// --- the graph form of these rules ---
//
// A row without candidates is stuck, and the host reports it (eligible).

// The choice of the first `count` candidates of an order.
struct CandidateChoice {
  LoopOrder order;
  graph::Value count; // i32(rows)
  graph::Value carry; // i32(rows) or undefined
};
using SelectGraph = std::function<CandidateChoice(
    const LoopContext& moment, const PredictionValues& predicted, graph::Value candidates)>;

LoopOffer candidate_loop(SelectGraph select, int32_t mask_id);

// Returns x (rows, block) with every row in the given order.
graph::Value sorted_by(const LoopOrder& order, graph::Value x);
// Returns i32(rows): the number of flags u8(rows, block) that are set.
graph::Value count_of(graph::Value flags);
// Returns i32(rows): the number of flags before the first one that is not set.
graph::Value prefix_of(graph::Value flags);
// Returns u8(rows, block): 1 for the places of an order that hold candidates. `count` i32(rows) is
// count_of(candidates).
graph::Value in_use(graph::Value count, const Shape& shape);

// --- rules that decide a planned number of positions in each step ---

// Returns the number of positions to decide in each of `steps` steps, so that the expected share of
// masked positions follows the schedule (ZHZisZZ/dllm). With t = (steps - j) / steps and
// s = t - 1 / steps, step j decides
//   round_half_even(left * (1 - (1 - alpha(s)) / (1 - alpha(t)))).
// Steps that would decide no position are left out. The counts add up to `open`.
std::vector<int64_t> transfer_counts(const noise::Schedule& schedule, int64_t open, int64_t steps);
// Returns the counts of LLaDA: open / steps in every step, and one more in the first open % steps.
std::vector<int64_t> even_counts(int64_t open, int64_t steps);
// Returns the number of positions to decide in a step of a planned block. After the plan the number
// is INT32_MAX, so a step decides all positions that are left.
int64_t transfer_at(const std::vector<int64_t>& transfer, int64_t step);

// Counts the choices of a planned block. The number of choices is the number of positions that were
// open when the block began. A choice of the mask token counts, but leaves its position open. So a
// block may end with open positions.
class PlannedChoices {
public:
  void start(const StepContext& moment) { left_ = static_cast<int64_t>(moment.open.size()); }
  void count(const Choice& choice) { left_ -= static_cast<int64_t>(choice.decided.size()); }
  bool over(const StepContext& moment) const { return moment.open.empty() || left_ <= 0; }
  int64_t left() const { return left_; }

private:
  int64_t left_ = 0;
};

// The score of a planned rule. Its graph form decides the `count` open positions with the largest
// score.
enum class PlannedScore { probability, chance };

// Returns the graph form. LoopTables::count is the number of positions to decide in each step, and
// carry is the number of choices that are left of the plan.
LoopOffer planned_loop(PlannedScore score, int32_t mask_id);
// Fills the table `count` for the coming steps from the plan of a block, and sets carry.
void fill_planned(const std::vector<int64_t>& transfer, const PlannedChoices& choices,
                  const StepContext& moment, LoopTables& tables);
// Returns the choice of the positions `decided`: the new carry, and whether the plan is over.
LoopChoice planned_choice(const LoopContext& moment, graph::Value decided);

} // namespace dllm::decode
