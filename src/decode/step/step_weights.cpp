#include "decode/step/step_weights.h"

#include "base/error.h"

#include <utility>

namespace dllm::decode {

StepWeights::StepWeights(std::shared_ptr<model::Model> model, DecodeState& state, SlotList& slots,
                         bool may_change)
    : model_(std::move(model)), state_(state), slots_(slots), may_change_(may_change),
      version_(model_->version()) {}

Weights StepWeights::take(const Task* task) {
  Weights weights = weights_of(*model_, task);
  if (weights.version == version_) return weights;
  if (!may_change_) {
    fail_with_hint("make a new decoder, or set on_change to continue", Code::failed_precondition,
                   "the model's weights changed from version {} to {}", version_, weights.version);
  }
  state_.lose();
  // The old weights made the predictions.
  for (auto& [number, slot] : slots_.all()) slot.set_predicted(false);
  version_ = weights.version;
  return weights;
}

} // namespace dllm::decode
