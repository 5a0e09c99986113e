// Policies that commit candidates above a threshold of confidence: threshold, and hierarchy, which
// adds the best candidate of every run.
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"
#include "graph/ops.h"

#include <algorithm>

namespace dllm::decode {

// Confidence threshold (Fast-dLLM, Wu et al. 2025). A step commits all candidates whose probability
// is at least the threshold, and at least the most confident one. So an easy block takes few steps.

namespace {

struct ThresholdSettings {
  double threshold;
  bool near_best; // the limit is at most the best probability - 1e-5 (dInfer)
  bool budget;    // a step commits at most its share and the unused shares of earlier steps
  bool shaped;    // probabilities are taken after temperature and filters (Dream)
  int32_t mask_id;
};

class Threshold final : public UnmaskingRule {
public:
  explicit Threshold(const ThresholdSettings& settings) : settings_(settings) {}
  std::unique_ptr<UnmaskingRule> clone() const override {
    return std::make_unique<Threshold>(*this);
  }

  void start(const StepContext& moment) override {
    const auto open = static_cast<int64_t>(moment.open.size());
    share_ = (open + moment.steps - 1) / moment.steps;
    left_ = 0;
  }

  void fill_tables(const StepContext& moment, LoopTables& tables) const override {
    if (!settings_.budget) return;
    tables.carry = static_cast<int32_t>(left_);
    for_coming_steps(moment, tables.count.size(), [&](size_t i, const StepContext& coming) {
      const bool planned = coming.request.step_in_block < coming.steps;
      if (planned) tables.count[i] = static_cast<int32_t>(share_);
    });
  }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    const Eligible all = eligible(predictions, settings_.mask_id);
    std::vector<double> scores;
    for (const Prediction* p : all.candidates)
      scores.push_back(settings_.shaped ? p->shaped_probability : p->probability);
    Choice choice;
    for (const size_t chosen : at_least(scores, limit(moment)))
      choice.decided.push_back(all.index[chosen]);
    left_ += share_ - static_cast<int64_t>(choice.decided.size());
    return choice;
  }

private:
  int64_t limit(const StepContext& moment) const {
    const bool planned = moment.request.step_in_block < moment.steps;
    if (!settings_.budget || !planned) return INT32_MAX;
    return std::max<int64_t>(1, share_ + left_);
  }

  std::vector<size_t> at_least(const std::vector<double>& scores, int64_t most) const {
    std::vector<size_t> chosen;
    for (const size_t i : largest(scores, most)) {
      const double best = scores[chosen.empty() ? i : chosen.front()];
      const double limit =
          settings_.near_best ? std::min(best - 1e-5, settings_.threshold) : settings_.threshold;
      if (!chosen.empty() && scores[i] < limit) break;
      chosen.push_back(i);
    }
    return chosen;
  }

  ThresholdSettings settings_;
  int64_t share_ = 1, left_ = 0;
};

// Returns the graph form of the rule. LoopTables::count is a step's share of the budget, or
// INT32_MAX without a budget. carry is the unused share of earlier steps.
LoopOffer threshold_loop(const ThresholdSettings& settings) {
  using graph::Value;
  // best - 1e-5 is a double between two floats.
  if (settings.near_best) return {nullptr, "ties near_best compares doubles"};
  return candidate_loop(
      [settings](const LoopContext& moment, const PredictionValues& predicted, Value candidates) {
        graph::Graph& graph = moment.graph;
        const auto i32 = [&](int32_t x) { return graph::scalar_i32(graph, x); };
        const Value scores = settings.shaped ? predicted.shaped_probability : predicted.probability;
        const LoopOrder order = order_of(scores, candidates, true);
        const Value high = graph::greater_equal(
            scores, graph::scalar(graph, static_cast<float>(settings.threshold)));
        // The most confident candidate always passes.
        const Value passing =
            graph::maximum(count_of(graph::logical_and(high, candidates)), i32(1));
        if (!settings.budget) return CandidateChoice{order, passing, {}};
        const Value planned = graph::less(moment.count, i32(INT32_MAX));
        const Value share = graph::select(planned, moment.count, i32(0));
        const Value left = graph::add(share, moment.carry);
        const Value limit = graph::select(planned, graph::maximum(left, i32(1)), i32(INT32_MAX));
        const Value count = graph::minimum(passing, limit);
        const Value taken = graph::minimum(count, count_of(candidates));
        return CandidateChoice{order, count, graph::subtract(left, taken)};
      },
      settings.mask_id);
}

class ThresholdPolicy final : public BlockwisePolicy {
public:
  ThresholdPolicy(const PolicySetup& setup, const ThresholdSettings& settings)
      : BlockwisePolicy(
            setup, [=](const PolicySetup&) { return std::make_unique<Threshold>(settings); },
            [=] { return threshold_loop(settings); }),
        shaped_(settings.shaped) {}
  PredictionNeeds needs() const override { return {.shaped = shaped_, .nucleus_first = shaped_}; }

private:
  bool shaped_;
};

std::unique_ptr<Policy> make_threshold(const PolicySetup& setup) {
  const Options& options = setup.options;
  return std::make_unique<ThresholdPolicy>(
      setup, ThresholdSettings{as_f32(setup.f64("threshold")), options.str("ties") == "near_best",
                               options.boolean("budget"), options.str("confidence") == "shaped",
                               setup.mask_id});
}

std::vector<OptionSpec> threshold_keys() {
  return {
      option_f64(
          "threshold", 0.9, 0, 1,
          "Positions at least this probable are decided, and at least the most confident one."),
      option_choice("ties", "best", {"best", "near_best"},
                    "When no position is probable enough: only the best one, or all within 1e-5 of "
                    "it (dInfer)."),
      option_bool("budget", false,
                  "A step decides at most its even share plus the unused shares of earlier steps; "
                  "after the last planned step there is no limit (Dream in Fast-dLLM)."),
      option_choice("confidence", "model", {"model", "shaped"},
                    "Probability as the model gives it, or after temperature and filters, top_p "
                    "before top_k (Dream)."),
  };
}

} // namespace

PolicyKind policy_files::threshold() {
  return {"threshold", make_threshold, threshold_keys()};
}

// Hierarchical decoding (dInfer). A step commits the most confident candidate of every run of
// neighbouring open positions, so decided tokens cut the block into shorter and shorter runs. It
// also commits every candidate above the threshold.

namespace {

std::vector<size_t> best_of_runs(const Candidates& candidates, double threshold, double low) {
  const std::vector<double> scores = confidences(candidates);
  std::vector<uint8_t> chosen(scores.size(), 0);
  for (size_t begin = 0, end = 0; begin < scores.size(); begin = end) {
    size_t best = begin;
    for (end = begin + 1;
         end < scores.size() && candidates[end]->position == candidates[end - 1]->position + 1;
         ++end) {
      if (scores[end] > scores[best]) best = end;
    }
    if (scores[best] > low) chosen[best] = 1;
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > threshold) chosen[i] = 1;
  }
  chosen[largest(scores, 1).front()] = 1;
  std::vector<size_t> indices;
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] != 0) indices.push_back(i);
  }
  return indices;
}

std::unique_ptr<Policy> make_hierarchy(const PolicySetup& setup) {
  const double threshold = as_f32(setup.f64("threshold")), low = as_f32(setup.f64("low_threshold"));
  return std::make_unique<ConfidencePolicy>(setup, [=](const Candidates& candidates) {
    return best_of_runs(candidates, threshold, low);
  });
}

std::vector<OptionSpec> hierarchy_keys() {
  return {
      option_f64("threshold", 0.9, 0, 1, "Candidates of at least this probability are decided."),
      option_f64("low_threshold", 0.4, 0, 1,
                 "The most confident candidate of a run of open positions is decided above this."),
  };
}

} // namespace

PolicyKind policy_files::hierarchy() {
  return {"hierarchy", make_hierarchy, hierarchy_keys()};
}

} // namespace dllm::decode
