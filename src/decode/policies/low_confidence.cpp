// Low-confidence remasking (LLaDA, Nie et al. 2025, algorithm 5): predict every open position of
// the block, keep the surest of them, as many as the schedule says; the others stay masked.

#include "decode/policies/factories.h"

namespace dllm::decode {
namespace {

class LowConfidence final : public Rule {
public:
  void start(const Moment& moment) override {
    transfer_ =
        transfer_counts(moment.schedule, static_cast<int64_t>(moment.open.size()), moment.steps);
  }

  Choice choose(const Moment& moment, std::span<const Prediction> predictions) override {
    std::vector<double> scores;
    for (const Prediction& p : predictions) scores.push_back(static_cast<double>(p.probability));
    Choice choice;
    choice.commit = largest(scores, transfer_at(transfer_, moment.slot.step_in_block));
    return choice;
  }

private:
  std::vector<int64_t> transfer_;
};

} // namespace

std::unique_ptr<Policy> make_low_confidence(const PolicySetup& setup) {
  return std::make_unique<BlockwisePolicy>(
      setup, [](const PolicySetup&) { return std::make_unique<LowConfidence>(); });
}

} // namespace dllm::decode
