// Block diffusion (BD3-LM, Arriola et al. 2025, section 3; ZHZisZZ/dllm, BD3LM sampler). Blocks are
// counted from the end of the prompt, and each sees itself and all blocks before it. A step decides
// the most confident tokens of a block, and the schedule sets their number. K and V of decided
// blocks are kept.

#include "base/error.h"
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"

#include <algorithm>

namespace dllm::decode {
namespace {

class Bd3lm final : public UnmaskingRule {
public:
  explicit Bd3lm(bool random) : random_(random) {}
  std::unique_ptr<UnmaskingRule> clone() const override { return std::make_unique<Bd3lm>(*this); }

  void start(const StepContext& moment) override {
    transfer_ =
        transfer_counts(moment.schedule, static_cast<int64_t>(moment.open.size()), moment.steps);
    choices_.start(moment);
  }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    std::vector<double> scores;
    for (const Prediction& p : predictions)
      scores.push_back(static_cast<double>(random_ ? moment.uniform(p.position) : p.probability));
    Choice choice;
    choice.decided = largest(scores, transfer_at(transfer_, moment.request.step_in_block));
    choices_.count(choice);
    return choice;
  }

  bool block_ended(const StepContext& moment) const override { return choices_.over(moment); }

  void fill_tables(const StepContext& moment, LoopTables& tables) const override {
    fill_planned(transfer_, choices_, moment, tables);
  }
  int64_t most_steps(int64_t block_length, int64_t steps) const override {
    return std::min(block_length, steps);
  }

private:
  bool random_;
  std::vector<int64_t> transfer_;
  PlannedChoices choices_;
};

class Bd3lmSession final : public BlockwiseSession {
public:
  Bd3lmSession(const BlockwiseSettings& settings, int32_t pad, const noise::Schedule& schedule,
               std::unique_ptr<UnmaskingRule> rule, Request& request)
      : BlockwiseSession(settings, schedule, std::move(rule), request), pad_(pad) {}
  std::unique_ptr<Session> clone() const override { return std::make_unique<Bd3lmSession>(*this); }

  PassRequest next_pass(const Request& request, const CacheView& cache) const override {
    PassRequest pass = BlockwiseSession::next_pass(request, cache);
    for (int64_t i = 0; pad_ >= 0 && i < request.block_begin(); ++i) {
      if (request.ids[static_cast<size_t>(i)] == pad_) pass.left_out.push_back(i);
    }
    return pass;
  }

  Outcome apply(Request& request, const PassRequest& pass,
                std::span<const Prediction> predictions) override {
    if (request.step_in_block == 0) ++blocks_;
    copies_ = pass.unconditional.empty() ? 1 : 2;
    return BlockwiseSession::apply(request, pass, predictions);
  }
  // The source computes the positions before a block in a pass of its own, and the two canvases of
  // guidance one after the other.
  int64_t nfe(const Request& request) const override {
    return copies_ * (request.evaluations + blocks_);
  }

private:
  int32_t pad_; // positions with this token are left out; -1: none
  int64_t blocks_ = 0, copies_ = 1;
};

BlockwiseSettings bd3lm_settings(const PolicySetup& setup) {
  BlockwiseSettings settings = blockwise_settings(setup);
  settings.block_length = setup.span.block;
  settings.steps_per_block = setup.i64("steps_per_block");
  settings.eos = token_option(setup, "eos");
  // A later pass leaves out pad tokens of a block, but K and V of the block would already be final.
  if (token_option(setup, "compat_pad") >= 0) settings.cache = CacheMode::none;
  return settings;
}

class Bd3lmPolicy final : public BlockwisePolicy {
public:
  explicit Bd3lmPolicy(const PolicySetup& setup)
      : BlockwisePolicy(
            setup, bd3lm_settings(setup),
            [](const PolicySetup& own) {
              return std::make_unique<Bd3lm>(own.options.str("remasking") == "random");
            },
            [random = setup.options.str("remasking") == "random", mask = setup.mask_id] {
              return planned_loop(random ? PlannedScore::chance : PlannedScore::probability, mask);
            }) {}

  LoopOffer loop() const override {
    if (token_option(setup(), "compat_pad") < 0) return BlockwisePolicy::loop();
    return {nullptr, "option compat_pad leaves positions out"};
  }

  std::unique_ptr<Session> begin(Request& request) const override {
    // The grid extends to both sides, so prompts of other lengths may share cached rows.
    request.span = {settings().block_length, request.prompt % settings().block_length, false};
    return std::make_unique<Bd3lmSession>(settings(), token_option(setup(), "compat_pad"),
                                          setup().schedule, rule(), request);
  }
};

std::unique_ptr<Policy> make_bd3lm(const PolicySetup& setup) {
  return std::make_unique<Bd3lmPolicy>(block_causal_setup(setup));
}

std::vector<OptionSpec> bd3lm_keys() {
  return {
      option_i64("block_length", 32, 1, 1 << 24,
                 "Positions of a block, which are decided before the next block begins and see "
                 "each other; not set: the block length of a block_causal model."),
      option_i64("steps_per_block", 0, 0, 1 << 20,
                 "Steps of a block; 0: an even share of option steps."),
      option_choice(
          "remasking", "low_confidence", {"low_confidence", "random"},
          "Which positions of a block are decided first: the most confident ones, or random ones."),
      option_i64("eos", -1, -1, 1 << 30,
                 "Token id: a block that holds it is the last, and open positions after it become "
                 "this token; -1: none."),
      option_i64("compat_pad", -1, -1, 1 << 30,
                 "Token id of padding: no position sees it in the blocks before the current one, "
                 "as in dllm. It excludes a cache. -1: none."),
  };
}

} // namespace

PolicyKind policy_files::bd3lm() {
  return {"bd3lm", make_bd3lm, bd3lm_keys()};
}

} // namespace dllm::decode
