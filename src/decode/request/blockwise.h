#pragma once
// Block after block of a canvas under one unmasking rule: LLaDA's semi-autoregressive decoding, MDLM, Dream, BD3LM and
// Fast-dLLM differ in the rule, the grid and the cache alone.

#include "decode/pass/pass.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "noise/schedule.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// The moment of a request a rule decides in.
struct StepContext {
  const Request& request;
  const noise::Schedule& schedule;
  int64_t steps;                 // of this block, at most
  std::span<const int64_t> open; // masked positions of the block, ascending
  int64_t begin, end;            // the block
  bool chosen = false;           // after a step: the rule chose in it, not the host

  // Noise levels of the coming step, from 1 down: t now, s after it.
  double t() const;
  double s() const;
  float uniform(int64_t position, int word = 1) const {
    return position_uniform(request, position, word);
  }
};

// A token in place of the one predicted.
struct Token {
  int32_t id;
  float probability;
};

struct Choice {
  std::vector<size_t> decided; // indices into the predictions
  std::vector<Token> tokens;   // of decided, in its order; empty: those predicted
  std::vector<int64_t> remask; // decided positions that become masked again
  State state = State::final;  // of what is decided
};

// The part of a block-wise policy that chooses: which positions it wants predicted, which of them become final, which are
// masked again. Made anew for every request, so it may remember.
class UnmaskingRule {
public:
  virtual ~UnmaskingRule() = default;
  virtual std::unique_ptr<UnmaskingRule> clone() const = 0; // of the same class
  // A block begins with `open` masked positions.
  virtual void start(const StepContext&) {}
  // Positions whose prediction is needed, ascending; none: the step costs no pass. Default: the
  // open ones.
  virtual std::vector<int64_t> wanted(const StepContext& moment) const;
  virtual Choice choose(const StepContext& moment, std::span<const Prediction> predictions) = 0;
  // Noise level for a time-conditioned model. Default: t, but never below the last step's.
  virtual double time(const StepContext& moment) const;
  // For its graph form: numbers of the coming steps, as many as the tables are long.
  virtual void fill_tables(const StepContext&, LoopTables&) const {}
  // For the same: most steps a block of so many positions takes out of `steps` planned ones.
  // Default: each decides at least one position.
  virtual int64_t most_steps(int64_t block_length, int64_t /*steps*/) const { return block_length; }
  // Called after every step. A mask token that is chosen leaves its position open, so a rule that plans its steps has to
  // end after them, whatever is open then.
  virtual bool block_ended(const StepContext& moment) const { return moment.open.empty(); }
  virtual Json memory() const; // Session::memory
};

// Everything predicted becomes final.
Choice all_of(std::span<const Prediction> predictions);
// Calls use(i, moment) for each of the coming `count` steps of the moment's block; only the
// moment's times differ.
void for_coming_steps(const StepContext& now, size_t count,
                      const std::function<void(size_t, const StepContext&)>& use);

// Indices of the `count` largest scores; equal scores: the earlier one first.
std::vector<size_t> largest(const std::vector<double>& scores, int64_t count);

// What a window leaves out because K and V of it are kept.
enum class CacheMode {
  none,   // every pass computes the whole canvas
  exact,  // decided blocks of a block-causal model: the same bits as none
  prefix, // Fast-dLLM: everything before the block, as it was when the block began (approximate)
  dual    // and everything behind the block too (approximate)
};

struct BlockwiseSettings {
  CacheMode cache = CacheMode::none;
  bool grid_at_zero = false;   // blocks are counted from position 0, else from the prompt's end
  int64_t steps_per_block = 0; // 0: steps, spread evenly over the blocks
  int32_t eos = -1;            // a block that holds this one is the last; -1: none is
  int64_t steps = 1;           // of a request
  int64_t block_length = 0;
  int shift = 0;
  int32_t mask_id = 0;
  float guidance = 0;
  float early_exit = 0;               // 0: off
  std::vector<int32_t> guidance_keep; // given tokens the unconditional canvas keeps
};

// cache: the option's text; auto: exact where the span allows it. Fails with invalid_argument,
// with the modes this attention allows.
CacheMode cache_mode(const std::string& cache, const AttentionSpan& span);
BlockwiseSettings blockwise_settings(const PolicySetup& setup);
// For policies of block-causal models: the same setup with a span in blocks of option
// block_length, where that is not set of a block_causal model's own length. Fails with
// invalid_argument when option attention says something else.
PolicySetup block_causal_setup(const PolicySetup& setup);

class BlockwisePolicy : public Policy {
public:
  using RuleMaker = std::function<std::unique_ptr<UnmaskingRule>(const PolicySetup&)>;
  using LoopMaker = std::function<LoopOffer()>; // empty: the rule has no graph form
  BlockwisePolicy(const PolicySetup& setup, RuleMaker make_rule, LoopMaker make_loop = {});
  BlockwisePolicy(const PolicySetup& setup, BlockwiseSettings settings, RuleMaker make_rule,
                  LoopMaker make_loop = {});

  std::unique_ptr<Session> begin(Request& request) const override;
  LoopOffer loop() const override;
  std::string approximation() const override;

protected:
  const BlockwiseSettings& settings() const { return settings_; }
  std::unique_ptr<UnmaskingRule> rule() const { return make_rule_(setup()); }

private:
  BlockwiseSettings settings_;
  RuleMaker make_rule_;
  LoopMaker make_loop_;
};

class BlockwiseSession : public Session {
public:
  BlockwiseSession(const BlockwiseSettings& settings, const noise::Schedule& schedule,
                   std::unique_ptr<UnmaskingRule> rule, Request& request);
  BlockwiseSession(const BlockwiseSession& other);

  std::unique_ptr<Session> clone() const override;
  PassRequest next_pass(const Request& request, const CacheView& cache) const override;
  Outcome apply(Request& request, const PassRequest& pass,
                std::span<const Prediction> predictions) override;
  Outcome host_decided(Request& request, const std::vector<int64_t>& decided) override;
  LoopPlan plan_loop(const Request& request, const CacheView& cache) const override;
  LoopTables loop_tables(const Request& request, int64_t steps) const override;
  Json memory() const override;

private:
  StepContext moment(const Request& request, const std::vector<int64_t>& open) const;
  void write(Request& request, int64_t position, Token token, State state, Outcome& outcome) const;
  bool fills_cache(const Request& request, uint64_t generation) const;
  bool first_alone(const Request& request, const PassRequest& pass) const;
  bool exits_early(const PassRequest& pass, const std::vector<int64_t>& open,
                   std::span<const Prediction> predictions) const;
  Choice choose(const Request& request, const PassRequest& pass,
                std::span<const Prediction> predictions, bool* exits);
  void set_window(const Request& request, const CacheView& cache, PassRequest& pass) const;
  void set_guidance(const Request& request, PassRequest& pass) const;
  Outcome finish_step(Request& request, Outcome outcome, bool chosen, bool exits);
  void begin_block(Request& request);
  bool stop_at_eos(Request& request, Outcome& outcome) const;

  BlockwiseSettings settings_;
  const noise::Schedule& schedule_;
  std::unique_ptr<UnmaskingRule> rule_;
  int64_t steps_per_block_ = 1;
  // Block and generation the approximate cache was filled for.
  int64_t filled_block_ = -1;
  uint64_t filled_generation_ = 0;
};

} // namespace dllm::decode
