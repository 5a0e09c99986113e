// Random order: as many positions as the schedule says, drawn without looking at the model; only those are predicted.

#include "decode/policies/factories.h"

#include <algorithm>
#include <numeric>

namespace dllm::decode {
namespace {

class Random final : public Policy {
 public:
  const std::string& name() const override {
    static const std::string text = "random";
    return text;
  }

  std::vector<int64_t> wanted(const Moment& moment) const override {
    std::vector<std::pair<float, int64_t>> drawn;
    for (int64_t position : moment.open) drawn.emplace_back(moment.uniform(position), position);
    std::sort(drawn.begin(), drawn.end());
    const int64_t count = moment.slot.transfer[static_cast<size_t>(moment.slot.step_in_block)];
    std::vector<int64_t> positions;
    for (size_t i = 0; i < drawn.size() && i < static_cast<size_t>(count); ++i) positions.push_back(drawn[i].second);
    std::sort(positions.begin(), positions.end());
    return positions;
  }

  std::vector<size_t> choose(const Moment&, std::span<const Prediction> predictions) const override {
    std::vector<size_t> all(predictions.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return all;
  }

  std::vector<int64_t> plan(const Slot& slot, const noise::Schedule& schedule, int64_t open) const override {
    return transfer_counts(schedule, open, slot.steps_per_block);
  }
};

}  // namespace

std::unique_ptr<Policy> make_random() { return std::make_unique<Random>(); }

}  // namespace dllm::decode
