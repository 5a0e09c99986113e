// Ancestral sampling of the reverse process (MDLM, Sahoo et al. 2024, section 3.2.2): a masked
// token is revealed between t and s < t with probability (alpha(s) - alpha(t)) / (1 - alpha(t)).
// The draw does not look at the model, so only the revealed positions are predicted and a step
// without any costs nothing.

#include "decode/policies/factories.h"

#include <numeric>

namespace dllm::decode {
namespace {

class Ancestral final : public Rule {
public:
  std::vector<int64_t> wanted(const Moment& moment) const override {
    const double s = moment.s();
    const double reveal = s <= 0 ? 1.0 : 1.0 - moment.schedule.reverse_mask_prob(s, moment.t());
    std::vector<int64_t> positions;
    for (int64_t position : moment.open) {
      if (moment.uniform(position) < reveal) positions.push_back(position);
    }
    return positions;
  }

  Choice choose(const Moment&, std::span<const Prediction> predictions) override {
    return all_of(predictions);
  }
};

} // namespace

Choice all_of(std::span<const Prediction> predictions) {
  Choice choice;
  choice.commit.resize(predictions.size());
  std::iota(choice.commit.begin(), choice.commit.end(), size_t{0});
  return choice;
}

std::unique_ptr<Policy> make_ancestral(const PolicySetup& setup) {
  return std::make_unique<BlockwisePolicy>(
      setup, [](const PolicySetup&) { return std::make_unique<Ancestral>(); });
}

} // namespace dllm::decode
