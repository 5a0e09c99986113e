// Frechet profile (Open-dLLM, generation utilities; Fast-dLLM, Wu et al. 2025): with the n most confident candidates c1 >= c2 >= ..., the
// probability that all are right lies between L and U whatever their dependence; the most
// candidates whose profile L(n) - U(n) stays above delta are committed.
//   L(n) = max(0, c1 c2 ... cn - (1 - cn)^(n - 1)), U(n) = 1 - cn

#include "decode/policies/rules.h"
#include "decode/policies/table.h"
#include "decode/request/blockwise.h"

#include <algorithm>
#include <cmath>

namespace dllm::decode {
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

} // namespace dllm::decode
