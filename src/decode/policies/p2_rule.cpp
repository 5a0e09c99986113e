#include "decode/policies/dream_rules.h"

#include <algorithm>

namespace dllm::decode {
namespace {

class P2Rule final : public Rule {
public:
  std::vector<int64_t> wanted(const Moment& moment) const override {
    std::vector<int64_t> positions;
    for (int64_t i = moment.begin; i < moment.end; ++i) {
      if (moment.slot.states[static_cast<size_t>(i)] != State::fixed) positions.push_back(i);
    }
    return positions;
  }

  // What is decided already keeps its token, but is judged by the token drawn now.
  Choice choose(const Moment& moment, std::span<const Prediction> predictions) override {
    std::vector<double> doubts;
    for (const Prediction& p : predictions)
      doubts.push_back(-static_cast<double>(p.shaped_probability));
    std::vector<bool> masked(predictions.size(), false);
    for (const size_t i : largest(doubts, masks_after(moment, predictions.size())))
      masked[i] = true;
    Choice choice;
    choice.state = State::provisional;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const bool open = moment.slot.is_open(predictions[i].position);
      if (masked[i] && !open) choice.remask.push_back(predictions[i].position);
      if (!masked[i] && open) choice.commit.push_back(i);
    }
    return choice;
  }

private:
  static int64_t masks_after(const Moment& moment, size_t count) {
    const auto step = static_cast<double>(std::min(moment.slot.step_in_block + 1, moment.steps));
    const double kept = step / static_cast<double>(moment.steps);
    return static_cast<int64_t>(static_cast<float>(count) * static_cast<float>(1.0 - kept));
  }
};

} // namespace

std::unique_ptr<Rule> make_p2_rule() {
  return std::make_unique<P2Rule>();
}

} // namespace dllm::decode
