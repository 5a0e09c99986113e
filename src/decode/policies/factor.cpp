// Factor rule (Fast-dLLM, Wu et al. 2025, section 3.3): the surer the r-th best candidate is, the
// more may be committed with it: rank r passes when its probability is at least
// 1 - factor / (r + 1); rank 1 always does.

#include "decode/policies/confidence_rule.h"
#include "decode/policies/factories.h"

namespace dllm::decode {
namespace {

enum class Ranks { count, prefix, scan };

// How many of the best are committed.
int64_t passing(const std::vector<double>& sorted, double factor, Ranks ranks) {
  const auto count = static_cast<int64_t>(sorted.size());
  const auto passes = [&](int64_t i) { // of rank i + 1
    return i == 0 ||
           sorted[static_cast<size_t>(i)] >= bound(1.0 - factor / static_cast<double>(i + 2));
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

} // namespace

std::unique_ptr<Policy> make_factor(const PolicySetup& setup) {
  const double factor = setup.f64("factor");
  const std::string& name = setup.options.str("ranks");
  const Ranks ranks = name == "count"    ? Ranks::count
                      : name == "prefix" ? Ranks::prefix
                                         : Ranks::scan;
  return std::make_unique<ConfidencePolicy>(setup, [=](const Candidates& candidates) {
    const std::vector<double> scores = confidences(candidates);
    const std::vector<size_t> order = largest(scores, static_cast<int64_t>(scores.size()));
    std::vector<double> sorted;
    for (const size_t i : order) sorted.push_back(scores[i]);
    return largest(scores, passing(sorted, factor, ranks));
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

} // namespace dllm::decode
