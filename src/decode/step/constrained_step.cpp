#include "decode/step/constrained_step.h"

#include "base/error.h"
#include "decode/request/constraint.h"

#include <algorithm>
#include <vector>

namespace dllm::decode {

void ConstrainedStep::check_predictions(Slot& slot, const Weights& weights, const Task* task) {
  const Constraint* constraint = slot.request().settings.constraint.get();
  if (constraint == nullptr) return;
  slot.vetoes().emplace(*constraint, slot.method()->passes().banned, slot.method()->mask_id());
  predict_again(slot, slot.vetoes()->of_predictions(slot.request(), slot.predictions()), weights,
                task);
}

Trial ConstrainedStep::try_step(Slot& slot, const Weights& weights, const Task* task) {
  for (;;) {
    Trial trial = slot.try_step();
    if (!slot.vetoes()) return trial;
    const std::vector<int64_t> refused =
        slot.vetoes()->of_step(slot.request(), trial.request, slot.predictions());
    if (refused.empty()) return trial;
    predict_again(slot, refused, weights, task);
  }
}

// Repeats the pass for every group of positions with the same bans, and takes only the predictions
// of these positions from it.
void ConstrainedStep::predict_again(Slot& slot, std::span<const int64_t> positions,
                                    const Weights& weights, const Task* task) {
  std::vector<int64_t> refused(positions.begin(), positions.end());
  while (!refused.empty()) {
    for (const Vetoes::Group& group : slot.vetoes()->groups(refused)) {
      PassSettings settings = slot.method()->passes();
      settings.banned = group.banned;
      const std::vector<Prediction> again = passes_.repeat(slot, settings, weights, task);
      for (size_t i = 0; i < again.size(); ++i) {
        if (std::ranges::binary_search(group.positions, again[i].position))
          slot.predictions()[i] = again[i];
      }
    }
    refused = slot.vetoes()->of_predictions(slot.request(), slot.predictions());
  }
}

void ConstrainedStep::check_tokens(const Slot& slot, std::span<const int64_t> positions,
                                   std::span<const int32_t> tokens) {
  const Constraint* constraint = slot.request().settings.constraint.get();
  if (constraint == nullptr) return;
  Request canvas = slot.request();
  for (size_t i = 0; i < positions.size(); ++i) {
    if (!constraint->allows(canvas, positions[i], tokens[i])) {
      fail_with_hint("statistics lists tokens that are allowed", Code::invalid_argument,
                     "the constraint of slot {} refuses token {} at position {}", slot.number(),
                     tokens[i], positions[i]);
    }
    canvas.decide(positions[i], tokens[i], 0);
  }
}

} // namespace dllm::decode
