// Re-corrupting steps (nano-dlm's ddim_step): every masked position is predicted, then every
// decided one, old or new, is kept with probability alpha(s) and masked again else: the forward
// process applied afresh to the completed guess. The same as ReMDM with sigma = 1 - alpha(s): it
// revises freely and keeps the share of clean tokens of ancestral sampling.

#include "decode/policies/table.h"
#include "decode/request/blockwise.h"

#include <cmath>

namespace dllm::decode {
namespace {

class Ddim final : public UnmaskingRule {
public:
  explicit Ddim(int32_t mask_id) : mask_id_(mask_id) {}

  double time(const StepContext& moment) const override { return at(moment, 0); }

  Choice choose(const StepContext& moment, std::span<const Prediction> predictions) override {
    const bool last = moment.request.step_in_block + 1 >= moment.steps;
    const double keep = last ? 1 : moment.schedule.alpha(at(moment, 1));
    const auto stays = [&](int64_t position) { return last || moment.uniform(position) < keep; };
    Choice choice;
    choice.state = State::provisional;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const bool guessed = last || predictions[i].token != mask_id_;
      if (guessed && stays(predictions[i].position)) choice.decided.push_back(i);
    }
    for (int64_t i = moment.begin; i < moment.end; ++i) {
      const bool decided = moment.request.states[static_cast<size_t>(i)] == State::provisional;
      if (decided && !stays(i)) choice.remask.push_back(i);
    }
    return choice;
  }

  bool block_ended(const StepContext& moment) const override {
    return moment.open.empty() && moment.request.step_in_block >= moment.steps;
  }

private:
  // Time after `ahead` more steps. Under a schedule of discrete times: the whole one below, as the
  // published loop finds it, in single precision.
  static double at(const StepContext& moment, int64_t ahead) {
    const int64_t step = moment.request.step_in_block + ahead, times = moment.schedule.steps();
    if (times == 0)
      return static_cast<double>(moment.steps - step) / static_cast<double>(moment.steps);
    const float share = 1.0f - static_cast<float>(step) * (1.0f / static_cast<float>(moment.steps));
    return std::floor(static_cast<float>(times) * share) / static_cast<double>(times);
  }

  int32_t mask_id_;
};

std::unique_ptr<Policy> make_ddim(const PolicySetup& setup) {
  return std::make_unique<BlockwisePolicy>(
      setup, [](const PolicySetup& own) { return std::make_unique<Ddim>(own.mask_id); });
}

} // namespace

PolicyKind policy_files::ddim() {
  return {"ddim", make_ddim, {}};
}

} // namespace dllm::decode
