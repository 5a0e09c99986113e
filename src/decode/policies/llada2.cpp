// LLaDA2 (Ant Group 2025; ZHZisZZ/dllm, LLaDA2 sampler). Blocks form a grid from position 0, and
// each sees itself and all blocks before it. A step decides every token above a threshold, and at
// least its quota. LLaDA2.1 goes on when no position is open, and replaces tokens that the model
// now doubts. A penalty on the logit of the left neighbour's token keeps a block from repeating it
// (SGLang, joint_threshold, penalty_lambda).

#include "base/error.h"
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dllm::decode {
namespace {

struct Llada2Settings {
  double threshold = 0.95;
  double editing_threshold = 1; // 1: no token is replaced
  int64_t max_post_steps = 16;
  int64_t num_to_transfer = 0; // quota of a step; 0: an even share of the block
  int64_t minimal_topk = 1;
  int64_t block_length = 32;
  int32_t mask_id = 0;
  double left_penalty = 0; // on the left neighbour's token inside a block, in nats

  bool edits() const { return editing_threshold < 1; }
  // Returns the most steps of a block. The block then ends with open positions, so that a model
  // which always returns the mask token comes to an end. With num_to_transfer SGLang's
  // joint_threshold has the same number. With an even share it follows the planned steps of the
  // source.
  int64_t most_steps(int64_t planned) const {
    if (num_to_transfer > 0) return block_length + max_post_steps + 1;
    return planned + (edits() ? max_post_steps + 1 : 0);
  }
};

class Llada2 final : public UnmaskingRule {
public:
  explicit Llada2(const Llada2Settings& settings) : settings_(settings) {}
  std::unique_ptr<UnmaskingRule> clone() const override { return std::make_unique<Llada2>(*this); }

  void start(const StepContext& moment) override {
    const int64_t length = moment.request.length() - moment.request.prompt;
    steps_ = std::min(moment.steps, std::max<int64_t>(1, length / settings_.minimal_topk));
    post_steps_ = taken_ = 0;
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
    std::vector<Token> tokens;
    for (const Prediction& p : predictions) tokens.push_back(token_of(moment, p));
    choice.decided = most_confident(moment, predictions, tokens);
    edited_ = false;
    for (size_t i = 0; settings_.edits() && i < predictions.size(); ++i) {
      const int64_t position = predictions[i].position;
      if (moment.request.is_open(position) || confidence(tokens[i]) <= settings_.editing_threshold)
        continue;
      if (moment.request.ids[static_cast<size_t>(position)] == tokens[i].id) continue;
      edited_ = true;
      if (tokens[i].id == settings_.mask_id)
        choice.remask.push_back(position);
      else
        choice.decided.push_back(i);
    }
    if (settings_.left_penalty > 0) {
      for (const size_t i : choice.decided) choice.tokens.push_back(tokens[i]);
    }
    had_open_ = !moment.open.empty();
    post_steps_ += had_open_ ? 0 : 1;
    ++taken_;
    return choice;
  }

  bool block_ended(const StepContext& moment) const override {
    const bool over = moment.chosen && taken_ >= settings_.most_steps(steps_);
    if (!moment.open.empty() || over) return over;
    // A step of the host does not look at decided tokens again.
    if (!settings_.edits() || !moment.chosen) return true;
    return post_steps_ >= settings_.max_post_steps || (!had_open_ && !edited_);
  }

  Json memory() const override { return {{"post_steps", post_steps_}}; }

private:
  // Returns the probability under the distribution that the token was drawn from.
  static double confidence(const Token& token) { return static_cast<double>(token.probability); }

  // Returns the token of a position and its probability. The penalty c lowers the logit of the left
  // neighbour's token l, so
  //   p'(x) = p(x) e^(-c [x = l]) / (1 - p(l) (1 - e^-c)).
  // One of the two likeliest tokens is the likeliest after the penalty.
  Token token_of(const StepContext& moment, const Prediction& p) const {
    if (settings_.left_penalty == 0 || p.position == moment.begin)
      return {p.token, p.shaped_probability};
    const int32_t left = moment.request.ids[static_cast<size_t>(p.position - 1)];
    const double share = std::exp(-settings_.left_penalty);
    const double sum = 1 - static_cast<double>(p.left_probability) * (1 - share);
    Token best{p.token, -1};
    for (size_t k = 0; k < p.top_ids.size(); ++k) {
      const double own = static_cast<double>(p.top_probs[k]) * (p.top_ids[k] == left ? share : 1.0);
      const auto probability = static_cast<float>(own / sum);
      if (probability > best.probability) best = {p.top_ids[k], probability};
    }
    return best;
  }

  int64_t quota(const StepContext& moment) const {
    if (settings_.num_to_transfer > 0) return settings_.num_to_transfer;
    const int64_t step = moment.request.step_in_block;
    if (step >= steps_) return settings_.block_length;
    return settings_.block_length / steps_ + (step < settings_.block_length % steps_ ? 1 : 0);
  }

  // Returns the open positions above the threshold, or the most confident ones up to the quota.
  std::vector<size_t> most_confident(const StepContext& moment,
                                     std::span<const Prediction> predictions,
                                     std::span<const Token> tokens) const {
    std::vector<size_t> high;
    std::vector<double> scores;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const bool open = moment.request.is_open(predictions[i].position);
      if (open && confidence(tokens[i]) > settings_.threshold) high.push_back(i);
      scores.push_back(open ? confidence(tokens[i]) : -1.0);
    }
    const int64_t least = std::min(quota(moment), static_cast<int64_t>(moment.open.size()));
    return static_cast<int64_t>(high.size()) >= least ? high : largest(scores, least);
  }

  Llada2Settings settings_;
  int64_t steps_ = 1;
  int64_t post_steps_ = 0; // steps without open positions
  int64_t taken_ = 0;
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
  settings.left_penalty = setup.f64("left_penalty");
  return std::make_unique<Llada2>(settings);
}

class Llada2Policy final : public BlockwisePolicy {
public:
  explicit Llada2Policy(const PolicySetup& setup)
      : BlockwisePolicy(setup, llada2_blocks(setup), llada2_rule) {}

  std::unique_ptr<Session> begin(Request& request) const override {
    const RequestSettings& own = request.settings;
    if (needs().looks_left && (own.temperature > 0 || graph::filters_on(own.filters) != 0)) {
      fail_with_hint("set temperature to 0, " + graph::filters_off_text(), Code::invalid_argument,
                     "left_penalty {} works for the likeliest tokens only, not for draws",
                     setup().f64("left_penalty"));
    }
    request.span = {settings().block_length, 0, false};
    return BlockwisePolicy::begin(request);
  }
  PredictionNeeds needs() const override {
    const bool looks_left = setup().f64("left_penalty") > 0;
    return {.top = looks_left ? 2 : 1, .shaped = true, .looks_left = looks_left};
  }
};

std::unique_ptr<Policy> make_llada2(const PolicySetup& setup) {
  return std::make_unique<Llada2Policy>(block_causal_setup(setup));
}

std::vector<OptionSpec> llada2_keys() {
  return {
      option_i64("block_length", 32, 1, 1 << 24,
                 "Positions of a block, counted from the canvas's first; not set: the block length "
                 "of a block_causal model."),
      option_i64(
          "steps_per_block", 0, 0, 1 << 20,
          "Steps of a block; 0: an even share of option steps for each block with open positions."),
      option_f64("threshold", 0.95, 0, 1,
                 "A step commits every token more probable than this, at least its quota."),
      option_f64("editing_threshold", 1, 0, 1,
                 "A committed token of the block is replaced when another is more probable than "
                 "this (LLaDA2.1: 0.9); 1: never."),
      option_f64("left_penalty", 0, 0, 100,
                 "Subtracted in a block from the logit of the token to the left, against "
                 "repetitions; at temperature 0 only."),
      option_i64("max_post_steps", 16, 0, 1 << 20,
                 "With editing: most steps of a block after its last mask."),
      option_i64("num_to_transfer", 0, 0, 1 << 24,
                 "Quota of a step; 0: an even share of the block (LLaDA2.1: 1)."),
      option_i64("minimal_topk", 1, 1, 1 << 24,
                 "A block takes at most (open positions of the request) / minimal_topk steps."),
      option_i64("eos", -1, -1, 1 << 30,
                 "Token id: a block that holds it is the last, and open positions after it become "
                 "this token; -1: none."),
  };
}

} // namespace

PolicyKind policy_files::llada2() {
  return {"llada2", make_llada2, llada2_keys()};
}

} // namespace dllm::decode
