// Policies that commit as many candidates as a bound on their joint error allows: factor, frechet,
// entropy_bound.
#include "decode/policies/policies.h"
#include "decode/request/blockwise.h"
#include "graph/ops.h"

#include <algorithm>
#include <cmath>

namespace dllm::decode {

// The factor rule (Fast-dLLM, Wu et al. 2025, section 3.3). The more confident the candidate of
// rank r is, the more candidates may be committed together. Rank r passes if its probability is at
// least 1 - factor / (r + 1). Rank 1 always passes.

namespace {

using graph::Value;

enum class Ranks { count, prefix, scan };

// Returns how many of the best candidates are committed.
int64_t passing(const std::vector<double>& sorted, double factor, Ranks ranks) {
  const auto count = static_cast<int64_t>(sorted.size());
  const auto passes = [&](int64_t i) { // whether rank i + 1 passes
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
  // The published scan takes the last candidate when it reaches it, even if it does not pass.
  return ranks == Ranks::scan && end == count - 1 ? count : end;
}

// Returns the least probability of each rank, (1, block).
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
                 "The r-th most confident candidate passes with probability 1 - factor / (r + 1) "
                 "or more; the first one always passes."),
      option_choice("ranks", "count", {"count", "prefix", "scan"},
                    "How many are decided. count: as many as pass; prefix: the candidates before "
                    "the first one that fails; scan: as prefix, but all of them where only the "
                    "last one fails (Fast-dLLM's and DMax's code)."),
  };
}

} // namespace

PolicyKind policy_files::factor() {
  return {"factor", make_factor, factor_keys()};
}

// The Frechet profile (Open-dLLM, generation utilities; Fast-dLLM, Wu et al. 2025). With the n most
// confident candidates c1 >= c2 >= ..., the probability that all are right is between L and U,
// whatever their dependence is. The policy commits the largest n whose profile L(n) - U(n) is above
// delta.
//   L(n) = max(0, c1 c2 ... cn - (1 - cn)^(n - 1)), U(n) = 1 - cn

namespace {

int64_t widest(const std::vector<double>& sorted, double delta) {
  int64_t best = 1;
  double product = 1;
  for (size_t i = 0; i < sorted.size(); ++i) {
    product *= sorted[i];
    const double miss = 1.0 - sorted[i];
    const double lower = std::max(0.0, product - std::pow(miss, static_cast<double>(i)));
    if (lower - miss > delta) best = static_cast<int64_t>(i) + 1;
  }
  return best;
}

std::unique_ptr<Policy> make_frechet(const PolicySetup& setup) {
  const double delta = setup.f64("delta");
  return std::make_unique<ConfidencePolicy>(setup, [=](const Candidates& candidates) {
    const std::vector<double> scores = confidences(candidates);
    const std::vector<size_t> order = largest(scores, static_cast<int64_t>(scores.size()));
    std::vector<double> sorted;
    for (const size_t i : order) sorted.push_back(scores[i]);
    return largest(scores, widest(sorted, delta));
  });
}

std::vector<OptionSpec> frechet_keys() {
  return {option_f64("delta", 0.5, -1, 1,
                     "The most candidates whose Frechet profile is above this are decided; at "
                     "least one.")};
}

} // namespace

PolicyKind policy_files::frechet() {
  return {"frechet", make_frechet, frechet_keys()};
}

// Entropy-bounded unmasking (EB-sampler, Ben-Hamu et al. 2025). Candidates are sorted by an error
// proxy. The first ones are committed together while the sum of their entropies without the largest
// one is at most gamma. That sum bounds their dependence. gamma 0 commits one candidate, or several
// certain ones.

namespace {

// Returns a score that is larger for a surer prediction.
double sureness(const Prediction& p, const std::string& order) {
  if (order == "entropy") return -static_cast<double>(p.entropy);
  if (order == "confidence") return p.max_probability;
  return p.top_probs.size() > 1 ? p.top_probs[0] - p.top_probs[1] : 1.0;
}

// Returns the prefix sums of the values, computed by doubling the distance. The graph form does the
// same additions, and compilers do not reorder them.
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

// Joins all entries up to each place along every row of x (rows, block). 0 must be neutral for
// join.
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
    // The first candidate is always decided.
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
                 "Limit of the joint entropy of a step without its least sure position, in nats."),
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
