#pragma once
// A block-wise policy decodes a canvas block after block under one unmasking rule. LLaDA's
// semi-autoregressive decoding, MDLM, Dream, BD3LM and Fast-dLLM differ only in the rule, the grid
// and the cache.

#include "decode/pass/pass.h"
#include "decode/request/policy.h"
#include "decode/request/request.h"
#include "noise/schedules/schedule.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// The state of a request in which a rule decides a step of a block.
struct StepContext {
  const Request& request;
  const noise::Schedule& schedule;
  int64_t steps;                 // planned steps of this block
  std::span<const int64_t> open; // open positions of the block, ascending
  int64_t begin, end;            // the block
  bool chosen = false;           // after a step: the rule chose in it, the host did not

  // Noise levels, which fall from 1 to 0 over the planned steps: t() before the coming step, s()
  // after it.
  double t() const;
  double s() const;
  float uniform(int64_t position, int word = 1) const {
    return position_uniform(request, position, word);
  }
};

// A token that a rule writes in place of the predicted one.
struct Token {
  int32_t id;
  float probability;
};

// The decisions of one step.
struct Choice {
  std::vector<size_t> decided; // indices into the predictions
  std::vector<Token> tokens;   // one per entry of decided; empty: the predicted tokens
  std::vector<int64_t> remask; // positions to open again
  State state = State::final;  // state of the decided positions
};

// The part of a block-wise policy that chooses which positions are predicted, which of them are
// decided, and which are opened again. Every request has a rule object of its own, so a rule may
// have state.
class UnmaskingRule {
public:
  virtual ~UnmaskingRule() = default;
  virtual std::unique_ptr<UnmaskingRule> clone() const = 0; // a copy of the same class
  // Called when a block begins.
  virtual void start(const StepContext&) {}
  // Returns the positions to predict, ascending. A step without any costs no forward pass. Default:
  // the open positions.
  virtual std::vector<int64_t> wanted(const StepContext& moment) const;
  virtual Choice choose(const StepContext& moment, std::span<const Prediction> predictions) = 0;
  // Returns the noise level for a time-conditioned model. Default: t(), at least 1 / steps.
  virtual double time(const StepContext& moment) const;
  // For the graph form: fills the tables, one entry per coming step.
  virtual void fill_tables(const StepContext&, LoopTables&) const {}
  // For the graph form: returns the most steps that a block of `block_length` positions takes when
  // `steps` are planned. Default: block_length, because each step decides at least one position.
  virtual int64_t most_steps(int64_t block_length, int64_t /*steps*/) const { return block_length; }
  // Returns whether the block is over. Called after every step. A position whose chosen token is
  // the mask token stays open. So a rule with planned steps must end after its plan, even with open
  // positions.
  virtual bool block_ended(const StepContext& moment) const { return moment.open.empty(); }
  virtual Json memory() const; // Session::memory
};

// Returns the choice that makes every predicted position final.
Choice all_of(std::span<const Prediction> predictions);
// Calls use(i, moment) for each of the coming `count` steps of a block. Only the times of `moment`
// may be used, because its request has no field set but step_in_block.
void for_coming_steps(const StepContext& now, size_t count,
                      const std::function<void(size_t, const StepContext&)>& use);

// Returns the indices of the `count` largest scores, largest first. Equal scores keep their order.
std::vector<size_t> largest(const std::vector<double>& scores, int64_t count);

// The positions that a window leaves out because the cache holds their K and V.
enum class CacheMode {
  none,   // no position: every pass computes the whole canvas
  exact,  // decided blocks of a block-causal model; same bits as none
  prefix, // positions before the block, with K and V of its first step (Fast-dLLM; approximate)
  dual    // positions before and after the block, with K and V of its first step (approximate)
};

struct BlockwiseSettings {
  CacheMode cache = CacheMode::none;
  bool grid_at_zero = false;   // true: block 0 begins at position 0; false: after the prompt
  int64_t steps_per_block = 0; // 0: `steps`, spread evenly over the blocks
  int32_t eos = -1;            // the block that contains this token is the last; -1: no token
  int64_t steps = 1;           // planned steps of a request
  int64_t block_length = 0;
  int shift = 0;
  int32_t mask_id = 0;
  float guidance = 0;
  float early_exit = 0; // decides a block when all its open positions are this probable; 0: off
  std::vector<int32_t> guidance_keep; // given tokens that the unconditional canvas keeps
};

// Returns the mode that option `cache` names. "auto" is exact where the span allows it, else none.
// Fails with invalid_argument, naming the allowed modes, if the span does not allow the mode.
CacheMode cache_mode(const std::string& cache, const AttentionSpan& span);
BlockwiseSettings blockwise_settings(const PolicySetup& setup);
// Returns the setup of a policy for block-causal models: a copy of `setup` whose span has blocks of
// block_length_of(setup) positions. Fails with invalid_argument if option attention is neither auto
// nor block_causal.
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
  // The block and the generation for which the approximate cache was filled.
  int64_t filled_block_ = -1;
  uint64_t filled_generation_ = 0;
};

} // namespace dllm::decode
