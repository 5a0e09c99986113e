// LLaDA2 (Ant Group 2025; ZHZisZZ/dllm, LLaDA2 sampler): blocks of a grid that begins with the canvas, each
// seeing itself and all before it. A step commits every token above a threshold, at least its
// quota. LLaDA2.1 goes on when nothing is masked and replaces tokens the model has come to doubt.

#include "base/error.h"
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"

#include <algorithm>

namespace dllm::decode {
namespace {

struct Llada2Settings {
  double threshold = 0.95;
  double editing_threshold = 1; // 1: nothing is edited
  int64_t max_post_steps = 16;
  int64_t num_to_transfer = 0; // 0: an even share of the block
  int64_t minimal_topk = 1;
  int64_t block_length = 32;
  int32_t mask_id = 0;

  bool edits() const { return editing_threshold < 1; }
};

class Llada2 final : public UnmaskingRule {
public:
  explicit Llada2(const Llada2Settings& settings) : settings_(settings) {}

  void start(const StepContext& moment) override {
    const int64_t length = moment.request.length() - moment.request.prompt;
    steps_ = std::min(moment.steps, std::max<int64_t>(1, length / settings_.minimal_topk));
    post_steps_ = 0;
    chosen_at_ = -1;
  }

  std::vector<int64_t> wanted(const StepContext& moment) const override {
    if (!settings_.edits()) return UnmaskingRule::wanted(moment);
    std::vector<int64_t> positions;
    for (int64_t i = moment.begin; i < moment.end; ++i) {
      if (moment.request.states[static_cast<size_t>(i)] != State::fixed) positions.push_back(i);
    }
    return positions;
  }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    Choice choice;
    choice.state = settings_.edits() ? State::provisional : State::final;
    choice.decided = most_confident(moment, predictions);
    edited_ = false;
    for (size_t i = 0; settings_.edits() && i < predictions.size(); ++i) {
      const Prediction& p = predictions[i];
      if (moment.request.is_open(p.position) || confidence(p) <= settings_.editing_threshold)
        continue;
      if (moment.request.ids[static_cast<size_t>(p.position)] == p.token) continue;
      edited_ = true;
      if (p.token == settings_.mask_id)
        choice.remask.push_back(p.position);
      else
        choice.decided.push_back(i);
    }
    had_open_ = !moment.open.empty();
    post_steps_ += had_open_ ? 0 : 1;
    chosen_at_ = moment.request.step_in_block;
    return choice;
  }

  bool block_ended(const StepContext& moment) const override {
    if (!moment.open.empty()) return false;
    // When the host decided, nothing was looked at twice.
    if (!settings_.edits() || chosen_at_ + 1 != moment.request.step_in_block) return true;
    return post_steps_ >= settings_.max_post_steps || (!had_open_ && !edited_);
  }

private:
  // Of the distribution the token was drawn from.
  static double confidence(const Prediction& p) {
    return static_cast<double>(p.shaped_probability);
  }

  int64_t quota(const StepContext& moment) const {
    if (settings_.num_to_transfer > 0) return settings_.num_to_transfer;
    const int64_t step = moment.request.step_in_block;
    if (step >= steps_) return settings_.block_length;
    return settings_.block_length / steps_ + (step < settings_.block_length % steps_ ? 1 : 0);
  }

  // Open positions above the threshold, or as many of the most confident as the quota says.
  std::vector<size_t> most_confident(const StepContext& moment,
                                     std::span<const Prediction> predictions) const {
    std::vector<size_t> high;
    std::vector<double> scores;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const bool open = moment.request.is_open(predictions[i].position);
      if (open && confidence(predictions[i]) > settings_.threshold) high.push_back(i);
      scores.push_back(open ? confidence(predictions[i]) : -1.0);
    }
    const int64_t least = std::min(quota(moment), static_cast<int64_t>(moment.open.size()));
    return static_cast<int64_t>(high.size()) >= least ? high : largest(scores, least);
  }

  Llada2Settings settings_;
  int64_t steps_ = 1;
  int64_t post_steps_ = 0; // taken with nothing masked
  int64_t chosen_at_ = -1;
  bool had_open_ = true, edited_ = false;
};

BlockwiseSettings llada2_blocks(const PolicySetup& setup) {
  BlockwiseSettings settings = blockwise_settings(setup);
  settings.grid_at_zero = true;
  settings.block_length = setup.span.block;
  settings.steps_per_block = setup.i64("steps_per_block");
  settings.eos = token_option(setup, "eos");
  return settings;
}

std::unique_ptr<UnmaskingRule> llada2_rule(const PolicySetup& setup) {
  Llada2Settings settings;
  settings.threshold = setup.f64("threshold");
  settings.editing_threshold = setup.f64("editing_threshold");
  settings.max_post_steps = setup.i64("max_post_steps");
  settings.num_to_transfer = setup.i64("num_to_transfer");
  settings.minimal_topk = setup.i64("minimal_topk");
  settings.block_length = setup.span.block;
  settings.mask_id = setup.mask_id;
  return std::make_unique<Llada2>(settings);
}

class Llada2Policy final : public BlockwisePolicy {
public:
  explicit Llada2Policy(const PolicySetup& setup)
      : BlockwisePolicy(setup, llada2_blocks(setup), llada2_rule) {}

  std::unique_ptr<Session> begin(Request& request) const override {
    request.span = {settings().block_length, 0, false};
    return BlockwisePolicy::begin(request);
  }
  bool shaped() const override { return true; }
};

std::unique_ptr<Policy> make_llada2(const PolicySetup& setup) {
  return std::make_unique<Llada2Policy>(block_causal_setup(setup));
}

std::vector<OptionSpec> llada2_keys() {
  return {
      option_i64("block_length", 32, 1, 1 << 24,
                 "Positions decided before the next ones begin, counted from the canvas's first; "
                 "not set: those of a block_causal model."),
      option_i64("steps_per_block", 0, 0, 1 << 20,
                 "Steps of a block; 0: steps, spread evenly over the blocks with open positions."),
      option_f64("threshold", 0.95, 0, 1,
                 "A step commits every token more probable than this, at least its quota."),
      option_f64("editing_threshold", 1, 0, 1,
                 "A committed token of the block is replaced when another is more probable than "
                 "this (LLaDA2.1: 0.9); 1: never."),
      option_i64("max_post_steps", 16, 0, 1 << 20,
                 "With editing: most steps of a block with nothing left masked."),
      option_i64("num_to_transfer", 0, 0, 1 << 24,
                 "Quota of a step; 0: an even share of the block (LLaDA2.1: 1)."),
      option_i64("minimal_topk", 1, 1, 1 << 24,
                 "A block takes at most (open positions of the request) / minimal_topk steps."),
      option_i64("eos", -1, -1, 1 << 30,
                 "Token id: a block that holds it is the last, what is open behind it becomes that "
                 "token; -1: none."),
  };
}

} // namespace

PolicyKind policy_files::llada2() {
  return {"llada2", make_llada2, llada2_keys()};
}

} // namespace dllm::decode
