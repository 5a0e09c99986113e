#pragma once
// Block after block of a canvas under one unmasking rule: LLaDA's semi-autoregressive decoding, MDLM, Dream, BD3LM and
// Fast-dLLM differ in the rule, the grid and the cache alone.

#include "decode/ask.h"
#include "decode/loop_plan.h"
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
struct Moment {
  const Slot& slot;
  const noise::Schedule& schedule;
  int64_t steps;                 // of this block, at most
  std::span<const int64_t> open; // masked positions of the block, ascending
  int64_t begin, end;            // the block

  // Noise levels of the coming step, from 1 down: t now, s after it.
  double t() const;
  double s() const;
  float uniform(int64_t position, int word = 1) const {
    return position_uniform(slot, position, word);
  }
};

// A token in place of the one predicted.
struct Token {
  int32_t id;
  float probability;
};

struct Choice {
  std::vector<size_t> commit;  // indices into the predictions
  std::vector<Token> tokens;   // of commit, in its order; empty: those predicted
  std::vector<int64_t> remask; // decided positions that become masked again
  State state = State::final;  // of what is committed
};

// The part of a block-wise policy that chooses: which positions it wants predicted, which of them become final, which are
// masked again. Made anew for every request, so it may remember.
class Rule {
public:
  virtual ~Rule() = default;
  // A block begins with `open` masked positions.
  virtual void start(const Moment&) {}
  // Positions whose prediction is needed, ascending; none: the step costs no pass. Default: the
  // open ones.
  virtual std::vector<int64_t> wanted(const Moment& moment) const;
  virtual Choice choose(const Moment& moment, std::span<const Prediction> predictions) = 0;
  // Noise level the model is told, if it is told. Default: t, but never below the last step's.
  virtual double time(const Moment& moment) const;
  // For its graph form: numbers of the coming steps, as many as the tables are long.
  virtual void fill_tables(const Moment&, LoopTables&) const {}
  // For the same: most steps a block of so many positions takes out of `steps` planned ones.
  // Default: each decides at least one position.
  virtual int64_t most_steps(int64_t block_length, int64_t /*steps*/) const { return block_length; }
  // Asked after every step.
  virtual bool block_ended(const Moment& moment) const { return moment.open.empty(); }
};

// Everything predicted becomes final.
Choice all_of(std::span<const Prediction> predictions);
// Calls use(i, moment) for each of the coming `count` steps of the moment's block; only the
// moment's times tell them apart.
void for_coming_steps(const Moment& now, size_t count,
                      const std::function<void(size_t, const Moment&)>& use);

// Indices of the `count` largest scores; equal scores: the earlier one first.
std::vector<size_t> largest(const std::vector<double>& scores, int64_t count);

// What a window leaves out because K and V of it are kept.
enum class CacheMode {
  none,   // every pass sees the whole canvas
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
  using RuleMaker = std::function<std::unique_ptr<Rule>(const PolicySetup&)>;
  using LoopMaker = std::function<LoopOffer()>; // empty: the rule has no graph form
  BlockwisePolicy(const PolicySetup& setup, RuleMaker make_rule, LoopMaker make_loop = {});
  BlockwisePolicy(const PolicySetup& setup, BlockwiseSettings settings, RuleMaker make_rule,
                  LoopMaker make_loop = {});

  std::unique_ptr<Session> begin(Slot& slot) const override;
  LoopOffer loop() const override;
  std::string approximation() const override;

protected:
  const BlockwiseSettings& settings() const { return settings_; }
  std::unique_ptr<Rule> rule() const { return make_rule_(setup()); }

private:
  BlockwiseSettings settings_;
  RuleMaker make_rule_;
  LoopMaker make_loop_;
};

class BlockwiseSession : public Session {
public:
  BlockwiseSession(const BlockwiseSettings& settings, const noise::Schedule& schedule,
                   std::unique_ptr<Rule> rule, Slot& slot);

  Ask ask(const Slot& slot, const CacheView& cache) const override;
  Outcome apply(Slot& slot, const Ask& ask, std::span<const Prediction> predictions) override;
  Outcome settle(Slot& slot, const std::vector<int64_t>& decided) override;
  LoopAsk loop_ask(const Slot& slot, const CacheView& cache) const override;
  LoopTables loop_tables(const Slot& slot, int64_t steps) const override;

private:
  Moment moment(const Slot& slot, const std::vector<int64_t>& open) const;
  bool fills_cache(const Slot& slot, uint64_t generation) const;
  bool first_alone(const Slot& slot, const Ask& ask) const;
  Choice choose(const Slot& slot, const Ask& ask, std::span<const Prediction> predictions,
                bool* exits);
  void set_window(const Slot& slot, const CacheView& cache, Ask& ask) const;
  void set_guidance(const Slot& slot, Ask& ask) const;
  Outcome finish_step(Slot& slot, Outcome outcome, bool exits = false);
  void begin_block(Slot& slot);
  bool stop_at_eos(Slot& slot, Outcome& outcome) const;

  BlockwiseSettings settings_;
  const noise::Schedule& schedule_;
  std::unique_ptr<Rule> rule_;
  int64_t steps_per_block_ = 1;
  // Block and generation the approximate cache was filled for.
  int64_t filled_block_ = -1;
  uint64_t filled_generation_ = 0;
};

} // namespace dllm::decode
