// Entropy-bounded unmasking (EB-sampler, Ben-Hamu et al. 2025): candidates in the order of an error
// proxy are committed together as long as the sum of their entropies without the largest one, which
// bounds their dependence, stays within gamma. gamma 0 commits one, or several certain ones.

#include "decode/policies/rules.h"
#include "decode/policies/table.h"
#include "decode/request/blockwise.h"
#include "graph/ops.h"

#include <algorithm>

namespace dllm::decode {
namespace {

using graph::Value;

// Larger is surer.
double sureness(const Prediction& p, const std::string& order) {
  if (order == "entropy") return -static_cast<double>(p.entropy);
  if (order == "confidence") return p.max_probability;
  return p.top_probs.size() > 1 ? p.top_probs[0] - p.top_probs[1] : 1.0;
}

// Sums from the front, added by doubling reaches: the graph form does the same additions, and no
// compiler orders them anew.
std::vector<float> sums_of(std::vector<float> values) {
  for (size_t reach = 1; reach < values.size(); reach *= 2) {
    for (size_t i = values.size(); i-- > reach;) values[i] += values[i - reach];
  }
  return values;
}

std::vector<size_t> bounded(const Candidates& candidates, const std::string& order, float gamma) {
  std::vector<double> scores;
  for (const Prediction* p : candidates) scores.push_back(sureness(*p, order));
  std::vector<size_t> chosen = largest(scores, static_cast<int64_t>(scores.size()));
  std::vector<float> entropies;
  for (const size_t i : chosen) entropies.push_back(candidates[i]->entropy);
  const std::vector<float> sums = sums_of(entropies);
  float most = 0;
  size_t count = 0;
  for (; count < sums.size(); ++count) {
    most = std::max(most, entropies[count]);
    if (count > 0 && sums[count] - most > gamma) break;
  }
  chosen.resize(count);
  return chosen;
}

// join of all up to a place, along every row of x (rows, block); 0 changes nothing.
Value running(Value x, Value (*join)(Value, Value)) {
  const int64_t rows = x.dim(0), block = x.dim(1);
  for (int64_t reach = 1; reach < block; reach *= 2) {
    const Value zeros = graph::full(*x.graph, Shape{rows, reach}, 0.0f);
    x = join(x, graph::concat({zeros, graph::slice_axis(x, 1, 0, block - reach)}, 1));
  }
  return x;
}

SelectGraph bounded_graph(const std::string& order, float gamma) {
  return [=](const LoopContext& moment, const PredictionValues& predicted, Value candidates) {
    graph::Graph& graph = moment.graph;
    const int64_t rows = moment.rows(), block = moment.block();
    const auto top = [&](int64_t k) {
      return graph::reshape(graph::slice_axis(predicted.top_probs, 2, k, k + 1),
                            Shape{rows, block});
    };
    const bool two = predicted.top_probs.dim(2) > 1;
    const Value scores = order == "entropy"      ? graph::negate(predicted.entropy)
                         : order == "confidence" ? predicted.max_probability
                         : two                   ? graph::subtract(top(0), top(1))
                                                 : graph::full(graph, candidates.shape(), 1.0f);
    const LoopOrder by = order_of(scores, candidates, true);
    const Value entropy = sorted_by(by, predicted.entropy);
    const Value most = running(graph::maximum(entropy, graph::scalar(graph, 0.0f)), graph::maximum);
    const Value risk = graph::subtract(running(entropy, graph::add), most);
    // The first is always decided.
    const Value first = graph::less(graph::iota(graph, candidates.shape(), DType::i32, 1),
                                    graph::scalar_i32(graph, 1));
    const Value within =
        graph::logical_or(first, graph::less_equal(risk, graph::scalar(graph, gamma)));
    return CandidateChoice{by, prefix_of(within), {}};
  };
}

std::unique_ptr<Policy> make_entropy_bound(const PolicySetup& setup) {
  const auto gamma = static_cast<float>(setup.f64("gamma"));
  const std::string order = setup.options.str("order");
  return std::make_unique<ConfidencePolicy>(
      setup, [=](const Candidates& candidates) { return bounded(candidates, order, gamma); },
      order == "margin" ? 2 : 1,
      [=, mask = setup.mask_id] { return candidate_loop(bounded_graph(order, gamma), mask); });
}

std::vector<OptionSpec> entropy_most_bytes_keys() {
  return {
      option_f64("gamma", 0.1, 0, 1e6,
                 "Nats of joint entropy a step may risk beyond its least sure position."),
      option_choice("order", "entropy", {"entropy", "confidence", "margin"},
                    "Which candidates come first: least entropy, largest probability, or largest "
                    "gap to the second token."),
  };
}

} // namespace

PolicyKind policy_files::entropy_bound() {
  return {"entropy_bound", make_entropy_bound, entropy_most_bytes_keys()};
}

} // namespace dllm::decode
