// Entropy-bounded unmasking (EB-sampler, Ben-Hamu et al. 2025): candidates in the order of an error
// proxy are committed together as long as the sum of their entropies without the largest one, which
// bounds their dependence, stays within gamma. gamma 0 commits one, or several certain ones.

#include "decode/policies/confidence_rule.h"
#include "decode/policies/factories.h"

#include <algorithm>

namespace dllm::decode {
namespace {

// Larger is surer.
double sureness(const Prediction& p, const std::string& order) {
  if (order == "entropy") return -static_cast<double>(p.entropy);
  if (order == "confidence") return p.max_probability;
  return p.top_probs.size() > 1 ? p.top_probs[0] - p.top_probs[1] : 1.0;
}

std::vector<size_t> bounded(const Candidates& candidates, const std::string& order, double gamma) {
  std::vector<double> scores;
  for (const Prediction* p : candidates) scores.push_back(sureness(*p, order));
  std::vector<size_t> chosen;
  double sum = 0, most = 0;
  for (const size_t i : largest(scores, static_cast<int64_t>(scores.size()))) {
    sum += candidates[i]->entropy;
    most = std::max(most, static_cast<double>(candidates[i]->entropy));
    if (!chosen.empty() && sum - most > gamma) break;
    chosen.push_back(i);
  }
  return chosen;
}

} // namespace

std::unique_ptr<Policy> make_entropy_bound(const PolicySetup& setup) {
  const double gamma = setup.f64("gamma");
  const std::string order = setup.options.str("order");
  return std::make_unique<ConfidencePolicy>(
      setup, [=](const Candidates& candidates) { return bounded(candidates, order, gamma); },
      order == "margin" ? 2 : 1);
}

std::vector<OptionSpec> entropy_bound_keys() {
  return {
      option_f64("gamma", 0.1, 0, 1e6,
                 "Nats of joint entropy a step may risk beyond its least sure position."),
      option_choice("order", "entropy", {"entropy", "confidence", "margin"},
                    "Which candidates come first: least entropy, largest probability, or largest "
                    "gap to the second token."),
  };
}

} // namespace dllm::decode
