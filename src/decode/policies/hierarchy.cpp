// Hierarchical decoding (dInfer): every run of neighbouring open positions gives its most confident
// candidate, so that decided tokens cut the block into ever shorter runs, and whatever is confident
// anyway comes along.

#include "decode/policies/rules.h"
#include "decode/policies/table.h"
#include "decode/request/blockwise.h"

#include <algorithm>

namespace dllm::decode {
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
      option_f64("threshold", 0.9, 0, 1, "Candidates with a larger probability are decided."),
      option_f64("low_threshold", 0.4, 0, 1,
                 "The surest candidate of a run of open positions is decided above this."),
  };
}

} // namespace

PolicyKind policy_files::hierarchy() {
  return {"hierarchy", make_hierarchy, hierarchy_keys()};
}

} // namespace dllm::decode
