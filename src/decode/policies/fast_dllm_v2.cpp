// Fast-dLLM v2 (Wu et al. 2025, arXiv 2509.26328). Blocks form a grid from position 0, and each
// sees itself and all blocks before it. The state before a token predicts it. The first token of a
// block is the next token of the decided block before it. The rest is decided in small blocks from
// the left. A step decides all tokens above a threshold, and at least the most confident one. K and
// V of decided blocks are kept.

#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"
#include "graph/ops.h"

#include <algorithm>

namespace dllm::decode {
namespace {

struct SmallBlocks {
  double threshold = 0.95;
  int64_t length = 8;
  int32_t mask_id = 0;

  // Returns the number of a small block. Small blocks are decided in the order of their numbers.
  // The first position of a block is a small block of its own.
  int64_t number(int64_t place_in_block) const {
    return place_in_block == 0 ? -1 : place_in_block / length;
  }
};

class FastDllmV2 final : public UnmaskingRule {
public:
  explicit FastDllmV2(const SmallBlocks& settings) : settings_(settings) {}
  std::unique_ptr<UnmaskingRule> clone() const override {
    return std::make_unique<FastDllmV2>(*this);
  }

  std::vector<int64_t> wanted(const StepContext& moment) const override {
    std::vector<int64_t> made;
    const auto number = [&](int64_t position) { return settings_.number(position - moment.begin); };
    for (const int64_t position : moment.open) {
      if (number(position) == number(moment.open[0])) made.push_back(position);
    }
    return made;
  }

  Choice choose(const StepContext&, std::span<const Prediction> predictions) override {
    const Eligible all = eligible(predictions, settings_.mask_id);
    std::vector<double> scores;
    int64_t sure = 0;
    for (const Prediction* p : all.candidates) {
      scores.push_back(p->shaped_probability);
      sure += scores.back() > settings_.threshold ? 1 : 0;
    }
    Choice choice;
    for (const size_t chosen : largest(scores, std::max<int64_t>(sure, 1)))
      choice.decided.push_back(all.index[chosen]);
    return choice;
  }

private:
  SmallBlocks settings_;
};

LoopOffer small_block_loop(const SmallBlocks& settings) {
  using graph::Value;
  return candidate_loop(
      [settings](const LoopContext& moment, const PredictionValues& predicted, Value candidates) {
        graph::Graph& graph = moment.graph;
        const int64_t block = candidates.dim(1);
        std::vector<float> numbers;
        for (int64_t place = 0; place < block; ++place)
          numbers.push_back(static_cast<float>(settings.number(place)));
        const Value number = graph::broadcast(
            graph::constant(graph, Tensor::from(Shape{1, block}, numbers)), candidates.shape());
        const Value none = graph::full(graph, candidates.shape(), static_cast<float>(block));
        const Value lowest = graph::min(graph::select(candidates, number, none), {1}, true);
        const Value near = graph::logical_and(
            candidates, graph::equal(number, graph::broadcast(lowest, candidates.shape())));
        const Value scores = predicted.shaped_probability;
        const Value high =
            graph::greater(scores, graph::scalar(graph, static_cast<float>(settings.threshold)));
        const Value sure = count_of(graph::logical_and(high, near));
        return CandidateChoice{
            order_of(scores, near, true), graph::maximum(sure, graph::scalar_i32(graph, 1)), {}};
      },
      settings.mask_id);
}

SmallBlocks small_blocks(const PolicySetup& setup) {
  return {as_f32(setup.f64("threshold")), setup.i64("small_block_length"), setup.mask_id};
}

BlockwiseSettings grid_settings(const PolicySetup& setup) {
  BlockwiseSettings settings = blockwise_settings(setup);
  settings.grid_at_zero = true;
  settings.block_length = setup.span.block;
  settings.steps_per_block = setup.span.block;
  settings.eos = token_option(setup, "eos");
  return settings;
}

class FastDllmV2Policy final : public BlockwisePolicy {
public:
  explicit FastDllmV2Policy(const PolicySetup& setup)
      : BlockwisePolicy(
            setup, grid_settings(setup),
            [](const PolicySetup& own) { return std::make_unique<FastDllmV2>(small_blocks(own)); },
            [settings = small_blocks(setup)] { return small_block_loop(settings); }) {}

  std::unique_ptr<Session> begin(Request& request) const override {
    request.span = {settings().block_length, 0, false};
    return BlockwisePolicy::begin(request);
  }
  PredictionNeeds needs() const override { return {.shaped = true}; }
};

std::unique_ptr<Policy> make_fast_dllm_v2(const PolicySetup& setup) {
  return std::make_unique<FastDllmV2Policy>(block_causal_setup(setup));
}

std::vector<OptionSpec> fast_dllm_v2_keys() {
  return {
      option_i64("block_length", 32, 1, 1 << 24,
                 "Positions whose K and V are kept together, counted from the canvas's first; not "
                 "set: the block length of a block_causal model."),
      option_i64("small_block_length", 8, 1, 1 << 24,
                 "Positions of a part of a block, which are decided before the next part."),
      option_f64("threshold", 0.95, 0, 1,
                 "Tokens more probable than this are decided, after temperature and filters, and "
                 "the most probable one at least."),
      option_i64("eos", -1, -1, 1 << 30,
                 "Token id: a block that holds it is the last, and open positions after it become "
                 "this token; -1: none."),
  };
}

} // namespace

PolicyKind policy_files::fast_dllm_v2() {
  return {"fast_dllm_v2", make_fast_dllm_v2, fast_dllm_v2_keys()};
}

} // namespace dllm::decode
