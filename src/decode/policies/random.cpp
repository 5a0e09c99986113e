// Random order: as many positions as the schedule says, drawn without looking at the model; only
// those are predicted.

#include "decode/policies/factories.h"

#include <algorithm>

namespace dllm::decode {
namespace {

class Random final : public Rule {
public:
  void start(const Moment& moment) override {
    transfer_ =
        transfer_counts(moment.schedule, static_cast<int64_t>(moment.open.size()), moment.steps);
  }

  std::vector<int64_t> wanted(const Moment& moment) const override {
    std::vector<std::pair<float, int64_t>> drawn;
    for (int64_t position : moment.open) drawn.emplace_back(moment.uniform(position), position);
    std::sort(drawn.begin(), drawn.end());
    const auto count = static_cast<size_t>(transfer_at(transfer_, moment.slot.step_in_block));
    drawn.resize(std::min(drawn.size(), count));
    std::vector<int64_t> positions;
    for (const auto& [number, position] : drawn) positions.push_back(position);
    std::sort(positions.begin(), positions.end());
    return positions;
  }

  Choice choose(const Moment&, std::span<const Prediction> predictions) override {
    return all_of(predictions);
  }

private:
  std::vector<int64_t> transfer_;
};

} // namespace

std::unique_ptr<Policy> make_random(const PolicySetup& setup) {
  return std::make_unique<BlockwisePolicy>(
      setup, [](const PolicySetup&) { return std::make_unique<Random>(); });
}

} // namespace dllm::decode
