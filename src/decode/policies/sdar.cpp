// SDAR (Cheng et al. 2025; JetAstra/SDAR, block_diffusion_generate). Small blocks form a grid from
// position 0, and each sees itself and all blocks before it. A step decides its share of the block:
// the leftmost open positions, the most confident ones, or all above a threshold if these are
// enough. K and V of decided blocks are kept.

#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"
#include "graph/ops.h"

#include <algorithm>

namespace dllm::decode {
namespace {

enum class SdarOrder { dynamic, fixed, sequential };

struct SdarSettings {
  SdarOrder order = SdarOrder::dynamic;
  double threshold = 0.85; // for order dynamic
  int64_t block_length = 4;
  int64_t steps = 4; // steps of a block
  int32_t mask_id = 0;

  // Returns the least number of positions that a step decides: an even share of the block, and one
  // more in the first steps.
  int64_t share(int64_t step) const {
    if (step >= steps) return block_length;
    return block_length / steps + (step < block_length % steps ? 1 : 0);
  }
};

class Sdar final : public UnmaskingRule {
public:
  explicit Sdar(const SdarSettings& settings) : settings_(settings) {}
  std::unique_ptr<UnmaskingRule> clone() const override { return std::make_unique<Sdar>(*this); }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    const Eligible all = eligible(predictions, settings_.mask_id);
    std::vector<double> scores;
    int64_t sure = 0;
    for (const Prediction* p : all.candidates) {
      const double probability = p->shaped_probability;
      sure += probability > settings_.threshold ? 1 : 0;
      const bool leftmost = settings_.order == SdarOrder::sequential;
      scores.push_back(leftmost ? -static_cast<double>(p->position) : probability);
    }
    int64_t count = settings_.share(moment.request.step_in_block);
    if (settings_.order == SdarOrder::dynamic) count = std::max(count, sure);
    Choice choice;
    for (const size_t chosen : largest(scores, count)) choice.decided.push_back(all.index[chosen]);
    return choice;
  }

  void fill_tables(const StepContext& moment, LoopTables& tables) const override {
    for (size_t i = 0; i < tables.count.size(); ++i) {
      tables.count[i] = static_cast<int32_t>(
          settings_.share(moment.request.step_in_block + static_cast<int64_t>(i)));
    }
  }
  int64_t most_steps(int64_t block_length, int64_t) const override {
    return std::min(block_length, settings_.steps);
  }

private:
  SdarSettings settings_;
};

// Returns the graph form of the rule. LoopTables::count is the share of a step.
LoopOffer sdar_loop(const SdarSettings& settings) {
  using graph::Value;
  return candidate_loop(
      [settings](const LoopContext& moment, const PredictionValues& predicted, Value candidates) {
        graph::Graph& graph = moment.graph;
        if (settings.order == SdarOrder::sequential) {
          const Value place = graph::iota(graph, candidates.shape(), DType::f32, 1);
          return CandidateChoice{order_of(place, candidates, false), moment.count, {}};
        }
        const Value scores = predicted.shaped_probability;
        const LoopOrder order = order_of(scores, candidates, true);
        if (settings.order == SdarOrder::fixed) return CandidateChoice{order, moment.count, {}};
        const Value high =
            graph::greater(scores, graph::scalar(graph, static_cast<float>(settings.threshold)));
        const Value sure = count_of(graph::logical_and(high, candidates));
        return CandidateChoice{order, graph::maximum(sure, moment.count), {}};
      },
      settings.mask_id);
}

SdarSettings sdar_settings(const PolicySetup& setup) {
  const std::string order = setup.options.str("remasking");
  SdarSettings settings;
  settings.order = order == "static"       ? SdarOrder::fixed
                   : order == "sequential" ? SdarOrder::sequential
                                           : SdarOrder::dynamic;
  settings.threshold = as_f32(setup.f64("threshold"));
  settings.block_length = setup.span.block;
  const int64_t steps = setup.i64("steps_per_block");
  settings.steps = steps > 0 ? std::min(steps, settings.block_length) : settings.block_length;
  settings.mask_id = setup.mask_id;
  return settings;
}

BlockwiseSettings sdar_blocks(const PolicySetup& setup) {
  BlockwiseSettings settings = blockwise_settings(setup);
  settings.grid_at_zero = true;
  settings.block_length = setup.span.block;
  settings.steps_per_block = sdar_settings(setup).steps;
  settings.eos = token_option(setup, "eos");
  return settings;
}

class SdarPolicy final : public BlockwisePolicy {
public:
  explicit SdarPolicy(const PolicySetup& setup)
      : BlockwisePolicy(
            setup, sdar_blocks(setup),
            [](const PolicySetup& own) { return std::make_unique<Sdar>(sdar_settings(own)); },
            [settings = sdar_settings(setup)] { return sdar_loop(settings); }) {}

  std::unique_ptr<Session> begin(Request& request) const override {
    request.span = {settings().block_length, 0, false};
    return BlockwisePolicy::begin(request);
  }
  PredictionNeeds needs() const override { return {.shaped = true}; }
};

std::unique_ptr<Policy> make_sdar(const PolicySetup& setup) {
  return std::make_unique<SdarPolicy>(block_causal_setup(setup));
}

std::vector<OptionSpec> sdar_keys() {
  return {
      option_i64("block_length", 4, 1, 1 << 24,
                 "Positions of a block, counted from the canvas's first; not set: the block length "
                 "of a block_causal model."),
      option_i64("steps_per_block", 0, 0, 1 << 20,
                 "Steps of a block at most; 0: one per position."),
      option_choice("remasking", "dynamic", {"dynamic", "static", "sequential"},
                    "Which positions a step decides. dynamic: all above the threshold, at least an "
                    "even share of the block; static: the most confident share; sequential: the "
                    "share from the left."),
      option_f64("threshold", 0.85, 0, 1,
                 "Of dynamic: tokens more probable than this, after temperature and filters."),
      option_i64("eos", -1, -1, 1 << 30,
                 "Token id: a block that holds it is the last, and open positions after it become "
                 "this token; -1: none."),
  };
}

} // namespace

PolicyKind policy_files::sdar() {
  return {"sdar", make_sdar, sdar_keys()};
}

} // namespace dllm::decode
