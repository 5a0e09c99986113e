#include "decode/step/token_step.h"

#include "base/error.h"

#include <utility>

namespace dllm::decode {
namespace {

// Limit of passes before a step. It ends a policy that only fills caches and never decides.
constexpr int kMostPasses = 64;

} // namespace

std::vector<Change> TokenStep::take(const std::vector<Slot*>& slots, const Task* task) {
  const Weights weights = predict(slots, task);
  std::vector<Change> changes;
  for (Slot* slot : slots) {
    if (slot->failure() != nullptr) continue;
    if (!slot->is_predicted()) { // the request ended while its cache was filled
      changes.push_back(slot->finish({}));
      continue;
    }
    parts_.failures.succeeds(*slot, [&] {
      changes.push_back(slot->accept(constrained_.try_step(*slot, weights, task)));
    });
  }
  return changes;
}

Weights TokenStep::predict(const std::vector<Slot*>& slots, const Task* task) {
  Weights weights = parts_.weights.take(task);
  parts_.state.recover();
  std::vector<Slot*> waiting;
  for (Slot* slot : slots) {
    if (!slot->is_predicted()) waiting.push_back(slot);
  }
  for (int round = 0; !waiting.empty(); ++round) {
    // Requests that fill their caches go first, so that all steps share one pass.
    std::vector<Slot*> filling, stepping;
    for (Slot* slot : waiting) {
      const auto plan = [&] {
        if (round == kMostPasses)
          fail(Code::internal, "a request took {} passes without a step", kMostPasses);
        slot->plan_pass();
        if (slot->pass().kind == PassKind::step) ConstrainedStep::ban_refused(*slot);
      };
      if (!parts_.failures.succeeds(*slot, plan)) continue;
      (slot->pass().kind == PassKind::step ? stepping : filling).push_back(slot);
    }
    const std::vector<Slot*>& now = filling.empty() ? stepping : filling;
    parts_.passes.run(now, weights, task);
    waiting = filling.empty() ? std::vector<Slot*>() : std::move(stepping);
    for (Slot* slot : now) {
      if (!slot->is_active()) continue;
      if (slot->pass().kind == PassKind::step) {
        slot->set_predicted(parts_.failures.succeeds(
            *slot, [&] { constrained_.check_predictions(*slot, weights, task); }));
        continue;
      }
      parts_.failures.succeeds(*slot, [&] { slot->end_filling(); });
      if (slot->is_active()) waiting.push_back(slot);
    }
  }
  return weights;
}

} // namespace dllm::decode
