// Factor rule (Fast-dLLM, Wu et al. 2025, section 3.3): the surer the r-th best candidate is, the
// more may be committed with it: rank r passes when its probability is at least
// 1 - factor / (r + 1); rank 1 always does.

#include "decode/policies/rules.h"
#include "decode/policies/table.h"
#include "decode/request/blockwise.h"
#include "graph/ops.h"

namespace dllm::decode {
namespace {

using graph::Value;

enum class Ranks { count, prefix, scan };

// How many of the best are committed.
int64_t passing(const std::vector<double>& sorted, double factor, Ranks ranks) {
  const auto count = static_cast<int64_t>(sorted.size());
  const auto passes = [&](int64_t i) { // of rank i + 1
    return i == 0 ||
           sorted[static_cast<size_t>(i)] >= as_f32(1.0 - factor / static_cast<double>(i + 2));
  };
  if (ranks == Ranks::count) {
    int64_t passed = 0;
    for (int64_t i = 0; i < count; ++i) passed += passes(i);
    return passed;
  }
  int64_t end = 0;
  while (end < count && passes(end)) ++end;
  // The published scan ends on the last candidate whether that passes or not, and takes it.
  return ranks == Ranks::scan && end == count - 1 ? count : end;
}

// Bounds of the ranks, (1, block).
Value bounds(graph::Graph& graph, int64_t block, double factor) {
  std::vector<float> values;
  for (int64_t i = 0; i < block; ++i) {
    const double limit = as_f32(1.0 - factor / static_cast<double>(i + 2));
    values.push_back(i == 0 ? std::numeric_limits<float>::lowest() : static_cast<float>(limit));
  }
  return graph::constant(graph, Tensor::from(Shape{1, block}, values));
}

SelectGraph factor_graph(double factor, Ranks ranks) {
  return [=](const LoopContext& moment, const PredictionValues& predicted, Value candidates) {
    const LoopOrder order = order_of(predicted.probability, candidates, true);
    const Value count = count_of(candidates);
    const Value high = graph::greater_equal(sorted_by(order, predicted.probability),
                                            bounds(moment.graph, moment.block(), factor));
    const Value passes = graph::logical_and(high, in_use(count, candidates.shape()));
    if (ranks == Ranks::count) return CandidateChoice{order, count_of(passes), {}};
    const Value end = prefix_of(passes);
    if (ranks == Ranks::prefix) return CandidateChoice{order, end, {}};
    const Value one_left =
        graph::equal(end, graph::subtract(count, graph::scalar_i32(moment.graph, 1)));
    return CandidateChoice{order, graph::select(one_left, count, end), {}};
  };
}

std::unique_ptr<Policy> make_factor(const PolicySetup& setup) {
  const double factor = setup.f64("factor");
  const std::string& name = setup.options.str("ranks");
  const Ranks ranks = name == "count"    ? Ranks::count
                      : name == "prefix" ? Ranks::prefix
                                         : Ranks::scan;
  const auto select = [=](const Candidates& candidates) {
    const std::vector<double> scores = confidences(candidates);
    const std::vector<size_t> order = largest(scores, static_cast<int64_t>(scores.size()));
    std::vector<double> sorted;
    for (const size_t i : order) sorted.push_back(scores[i]);
    return largest(scores, passing(sorted, factor, ranks));
  };
  return std::make_unique<ConfidencePolicy>(
      setup, select, 1, [factor, ranks, mask = setup.mask_id] {
        return candidate_loop(factor_graph(factor, ranks), mask);
      });
}

std::vector<OptionSpec> factor_keys() {
  return {
      option_f64("factor", 1, 0, 1e6,
                 "The r-th surest candidate passes with probability 1 - factor / (r + 1) or more; "
                 "the surest always."),
      option_choice("ranks", "count", {"count", "prefix", "scan"},
                    "As many are decided as ranks pass (count), as pass before the first that "
                    "fails (prefix), or as Fast-dLLM's and DMax's own code does (scan): prefix, "
                    "and all of them when only the last fails."),
  };
}

} // namespace

PolicyKind policy_files::factor() {
  return {"factor", make_factor, factor_keys()};
}

} // namespace dllm::decode
