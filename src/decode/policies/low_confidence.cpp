// Low-confidence remasking (LLaDA, Nie et al. 2025, algorithm 5): predict every open position of the block, keep the
// surest of them, as many as the schedule says; the others stay masked.

#include "decode/policies/factories.h"

#include <algorithm>
#include <numeric>

namespace dllm::decode {
namespace {

class LowConfidence final : public Policy {
 public:
  const std::string& name() const override {
    static const std::string text = "low_confidence";
    return text;
  }

  std::vector<int64_t> wanted(const Moment& moment) const override { return {moment.open.begin(), moment.open.end()}; }

  std::vector<size_t> choose(const Moment& moment, std::span<const Prediction> predictions) const override {
    std::vector<size_t> order(predictions.size());
    std::iota(order.begin(), order.end(), size_t{0});
    // Equal confidence: the earlier position first.
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return predictions[a].probability > predictions[b].probability;
    });
    const int64_t count = moment.slot.transfer[static_cast<size_t>(moment.slot.step_in_block)];
    order.resize(std::min(order.size(), static_cast<size_t>(count)));
    return order;
  }

  std::vector<int64_t> plan(const Slot& slot, const noise::Schedule& schedule, int64_t open) const override {
    return transfer_counts(schedule, open, slot.steps_per_block);
  }
};

}  // namespace

std::unique_ptr<Policy> make_low_confidence() { return std::make_unique<LowConfidence>(); }

}  // namespace dllm::decode
