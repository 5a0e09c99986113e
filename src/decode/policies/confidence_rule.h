#pragma once
// Rules that predict every open position of a block and choose among them by what was predicted
// alone: they differ in one function.

#include "decode/blockwise.h"

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace dllm::decode {

// Predictions that may be committed, never none; the mask token is not among them.
using Candidates = std::vector<const Prediction*>;
// Answers indices of the candidates to commit.
using Select = std::function<std::vector<size_t>(const Candidates& candidates)>;

// A bound that probabilities are compared with, rounded as they are.
inline double bound(double value) {
  return static_cast<double>(static_cast<float>(value));
}

std::vector<double> confidences(const Candidates& candidates);

// Candidates of a step with their indices into the predictions. Fails with failed_precondition
// when every prediction is the mask token: such a request would go on for ever.
struct Eligible {
  Candidates candidates;
  std::vector<size_t> index;
};
Eligible eligible(std::span<const Prediction> predictions, int32_t mask_id);

class ConfidencePolicy final : public BlockwisePolicy {
public:
  // top: likeliest tokens a prediction lists
  ConfidencePolicy(const PolicySetup& setup, Select select, int64_t top = 1,
                   LoopMaker make_loop = {});
  int64_t top() const override { return top_; }

private:
  int64_t top_;
};

} // namespace dllm::decode
