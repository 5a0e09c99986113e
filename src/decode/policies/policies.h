#pragma once
// Every policy (a new one is a function in a file of this folder, and its name twice here), and what rules share.

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
  std::vector<OptionSpec> options; // beyond those of every policy, or in place of one
};

namespace policy_files {

PolicyKind ancestral();
PolicyKind autoregressive();
PolicyKind bd3lm();
PolicyKind confidence_remasking();
PolicyKind credit();
PolicyKind ddim();
PolicyKind diffusion_gemma();
PolicyKind dream();
PolicyKind editflow();
PolicyKind entropy_bound();
PolicyKind factor();
PolicyKind fast_dllm_v2();
PolicyKind first_hitting();
PolicyKind frechet();
PolicyKind hierarchy();
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
    confidence_remasking,
    credit,
    ddim,
    diffusion_gemma,
    dream,
    editflow,
    entropy_bound,
    factor,
    fast_dllm_v2,
    first_hitting,
    frechet,
    hierarchy,
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

// What several unmasking rules share: counts of a plan, choosing among candidates by confidence, and the graph forms of both.

// --- rules that predict every open position of a block and choose by the predictions alone; they differ in one function ---

// Predictions that may be committed, never none; the mask token is not among them.
using Candidates = std::vector<const Prediction*>;
// Answers indices of the candidates to commit.
using Select = std::function<std::vector<size_t>(const Candidates& candidates)>;

// A threshold for probabilities, rounded as they are.
inline double as_f32(double value) {
  return static_cast<double>(static_cast<float>(value));
}

std::vector<double> confidences(const Candidates& candidates);

// Candidates of a step with their indices into the predictions. Fails with failed_precondition
// when every prediction is the mask token: such a request would go on for ever.
struct Eligible {
  Candidates candidates;
  std::vector<size_t> index;
};
Eligible eligible(std::span<const Prediction> predictions, int32_t mask_id);

class ConfidencePolicy final : public BlockwisePolicy {
public:
  // top: likeliest tokens a prediction lists
  ConfidencePolicy(const PolicySetup& setup, Select select, int64_t top = 1,
                   LoopMaker make_loop = {});
  PredictionNeeds needs() const override { return {.top = top_}; }

private:
  int64_t top_;
};

// --- their graph form: a row without candidates is stuck, which the host reports (eligible) ---

// The first `count` i32(rows) of an order of the candidates are decided.
struct CandidateChoice {
  LoopOrder order;
  graph::Value count;
  graph::Value carry; // i32(rows) or undefined
};
using SelectGraph = std::function<CandidateChoice(
    const LoopContext& moment, const PredictionValues& predicted, graph::Value candidates)>;

LoopOffer candidate_loop(SelectGraph select, int32_t mask_id);

// x (rows, block) as the order has it.
graph::Value sorted_by(const LoopOrder& order, graph::Value x);
// i32(rows): how many of u8(rows, block) are set, and how many of them before the first that is
// not.
graph::Value count_of(graph::Value flags);
graph::Value prefix_of(graph::Value flags);
// u8(rows, block): places of an order that hold candidates, count_of(candidates) i32(rows).
graph::Value in_use(graph::Value count, const Shape& shape);

// --- as many positions as a plan of the block's steps says ---

// Positions to decide in each of `steps` steps so that the expected masked share follows the
// schedule: at step j with t = (steps - j) / steps and s = t - 1 / steps,
// round_half_even(left * (1 - (1 - alpha(s)) / (1 - alpha(t)))); steps that would decide nothing
// are left out; the sum is `open` (ZHZisZZ/dllm).
std::vector<int64_t> transfer_counts(const noise::Schedule& schedule, int64_t open, int64_t steps);
// LLaDA's own: open / steps in every step, one more in the first open % steps.
std::vector<int64_t> even_counts(int64_t open, int64_t steps);
// Positions to decide in a step of a planned block; after the plan: all that is left.
int64_t transfer_at(const std::vector<int64_t>& transfer, int64_t step);

// How a planned block comes to its end where the model returns the mask token: such a choice leaves its position open
// and counts all the same, so that after as many choices as positions were open the block is over, with masks in it.
class PlannedChoices {
public:
  void start(const StepContext& moment) { left_ = static_cast<int64_t>(moment.open.size()); }
  void count(const Choice& choice) { left_ -= static_cast<int64_t>(choice.decided.size()); }
  bool over(const StepContext& moment) const { return moment.open.empty() || left_ <= 0; }
  int64_t left() const { return left_; }

private:
  int64_t left_ = 0;
};

// The graph form: those of the largest score.
enum class PlannedScore { probability, chance };

// LoopTables::count is how many, carry how many choices are left of the plan.
LoopOffer planned_loop(PlannedScore score, int32_t mask_id);
// count of the coming steps, by a plan of the block's steps.
void fill_planned(const std::vector<int64_t>& transfer, const PlannedChoices& choices,
                  const StepContext& moment, LoopTables& tables);
// Of the positions `decided` in a step: carry, and whether the plan is over.
LoopChoice planned_choice(const LoopContext& moment, graph::Value decided);

} // namespace dllm::decode
