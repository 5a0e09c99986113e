#include "decode/step/token_step.h"

#include "base/error.h"
#include "decode/step/shared_beginnings.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace dllm::decode {
namespace {

// Limit of passes before a step. It ends a policy that only fills caches and never decides.
constexpr int kMostPasses = 64;
// Rounds in which requests wait for the beginning that they share with another one.
constexpr int kMostShared = 4;

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

// Plans the passes of slots. If any fills a cache, those that do run now, and the others later.
TokenStep::Round TokenStep::plan(const std::vector<Slot*>& slots, int round, const Task* task) {
  std::vector<Slot*> planned;
  const auto plan_one = [&](Slot* slot) {
    const auto plan = [&] {
      if (round == kMostPasses)
        fail(Code::internal, "a request took {} passes without a step", kMostPasses);
      slot->plan_pass();
      if (slot->pass().kind == PassKind::step) constrained_.ban_refused(*slot, task);
    };
    if (parts_.failures.succeeds(*slot, plan)) planned.push_back(slot);
  };
  SharedBeginnings shared;
  for (Slot* slot : slots) {
    if (round >= kMostShared || !shared.takes(*slot, planned)) plan_one(slot);
  }
  for (Slot* slot : shared.drop_small()) plan_one(slot);
  std::vector<Slot*> filling = shared.cut_passes(), stepping;
  for (Slot* slot : planned) {
    if (std::ranges::find(filling, slot) != filling.end()) continue;
    (slot->pass().kind == PassKind::step ? stepping : filling).push_back(slot);
  }
  if (filling.empty()) return {std::move(stepping), {}, false};
  std::ranges::copy(shared.followers(), std::back_inserter(stepping));
  return {std::move(filling), std::move(stepping), true};
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
    Round now = plan(waiting, round, task);
    parts_.passes.run(now.passes, weights, task);
    waiting = std::move(now.later);
    for (Slot* slot : now.passes) {
      if (!slot->is_active()) continue;
      if (!now.fills) {
        slot->set_predicted(parts_.failures.succeeds(
            *slot, [&] { constrained_.check_predictions(*slot, weights, task); }));
        continue;
      }
      if (slot->pass().kind != PassKind::step)
        parts_.failures.succeeds(*slot, [&] { slot->end_filling(); });
      if (slot->is_active()) waiting.push_back(slot);
    }
  }
  return weights;
}

} // namespace dllm::decode
