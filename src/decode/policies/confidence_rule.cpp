#include "decode/policies/confidence_rule.h"

#include "base/error.h"

namespace dllm::decode {
namespace {

class ConfidenceRule final : public Rule {
public:
  ConfidenceRule(Select select, int32_t mask_id) : select_(std::move(select)), mask_id_(mask_id) {}

  Choice choose(const Moment&, std::span<const Prediction> predictions) override {
    const Eligible all = eligible(predictions, mask_id_);
    Choice choice;
    for (const size_t chosen : select_(all.candidates)) choice.commit.push_back(all.index[chosen]);
    return choice;
  }

private:
  Select select_;
  int32_t mask_id_;
};

} // namespace

std::vector<double> confidences(const Candidates& candidates) {
  std::vector<double> scores;
  for (const Prediction* p : candidates) scores.push_back(static_cast<double>(p->probability));
  return scores;
}

Eligible eligible(std::span<const Prediction> predictions, int32_t mask_id) {
  Eligible all;
  for (size_t i = 0; i < predictions.size(); ++i) {
    if (predictions[i].token == mask_id) continue;
    all.candidates.push_back(&predictions[i]);
    all.index.push_back(i);
  }
  if (all.candidates.empty() && !predictions.empty()) {
    fail_with_hint("set suppress_mask to true", Code::failed_precondition,
                   "all {} open positions are predicted to be the mask token {}",
                   predictions.size(), mask_id);
  }
  return all;
}

ConfidencePolicy::ConfidencePolicy(const PolicySetup& setup, Select select, int64_t top,
                                   LoopMaker make_loop)
    : BlockwisePolicy(
          setup,
          [select = std::move(select)](const PolicySetup& own) {
            return std::make_unique<ConfidenceRule>(select, own.mask_id);
          },
          std::move(make_loop)),
      top_(top) {}

} // namespace dllm::decode
