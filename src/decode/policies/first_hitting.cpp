// First-hitting sampling (Zheng et al. 2024): the times at which masked tokens are revealed are
// drawn, not stepped towards. With n left the mask probability of the next event is that of now
// times u^(1/n); the event reveals one of them, any with the same chance. Exact for a model that
// has every conditional, in one pass per token, whatever the schedule; `steps` plays no part.

#include "decode/policies/table.h"
#include "decode/request/blockwise.h"

#include <algorithm>
#include <cmath>

namespace dllm::decode {
namespace {

class FirstHitting final : public UnmaskingRule {
public:
  void start(const StepContext& moment) override { masked_ = moment.schedule.mask_prob(1); }

  std::vector<int64_t> wanted(const StepContext& moment) const override {
    const auto count = static_cast<double>(moment.open.size());
    const auto index = static_cast<size_t>(moment.uniform(moment.begin, 2) * count);
    return {moment.open[std::min(index, moment.open.size() - 1)]};
  }

  // The time at which the schedule masks as much: mask_prob grows with t.
  double time(const StepContext& moment) const override {
    const double target = next(moment);
    double low = 0, high = 1;
    for (int i = 0; i < 50; ++i) {
      const double middle = (low + high) / 2;
      (moment.schedule.mask_prob(middle) < target ? low : high) = middle;
    }
    return std::max(high, 1e-6);
  }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    masked_ = next(moment);
    return all_of(predictions);
  }

private:
  double next(const StepContext& moment) const {
    const auto count = static_cast<double>(moment.open.size());
    return masked_ * std::pow(static_cast<double>(moment.uniform(moment.begin, 1)), 1.0 / count);
  }

  double masked_ = 1; // probability that a token is masked at the time reached
};

std::unique_ptr<Policy> make_first_hitting(const PolicySetup& setup) {
  return std::make_unique<BlockwisePolicy>(
      setup, [](const PolicySetup&) { return std::make_unique<FirstHitting>(); });
}

} // namespace

PolicyKind policy_files::first_hitting() {
  return {"first_hitting", make_first_hitting, {}};
}

} // namespace dllm::decode
