// Ancestral sampling of the reverse process (MDLM, Sahoo et al. 2024, section 3.2.2): a masked token is revealed between
// t and s < t with probability (alpha(s) - alpha(t)) / (1 - alpha(t)). The draw does not look at the model, so only the
// revealed positions are predicted and a step without any costs nothing.

#include "decode/policies/factories.h"

#include <numeric>

namespace dllm::decode {
namespace {

class Ancestral final : public Policy {
 public:
  const std::string& name() const override {
    static const std::string text = "ancestral";
    return text;
  }

  std::vector<int64_t> wanted(const Moment& moment) const override {
    const auto steps = static_cast<double>(moment.slot.steps_per_block);
    const auto done = static_cast<double>(moment.slot.step_in_block);
    const double t = (steps - done) / steps, s = (steps - done - 1) / steps;
    const double reveal = s <= 0 ? 1.0 : 1.0 - moment.schedule.reverse_mask_prob(s, t);
    std::vector<int64_t> positions;
    for (int64_t position : moment.open) {
      if (moment.uniform(position) < reveal) positions.push_back(position);
    }
    return positions;
  }

  std::vector<size_t> choose(const Moment&, std::span<const Prediction> predictions) const override {
    std::vector<size_t> all(predictions.size());
    std::iota(all.begin(), all.end(), size_t{0});
    return all;
  }

  std::vector<int64_t> plan(const Slot&, const noise::Schedule&, int64_t) const override { return {}; }
};

}  // namespace

std::unique_ptr<Policy> make_ancestral() { return std::make_unique<Ancestral>(); }

}  // namespace dllm::decode
