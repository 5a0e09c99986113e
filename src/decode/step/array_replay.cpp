#include "decode/step/array_replay.h"

#include "base/error.h"
#include "decode/array/array_policy.h"

#include <algorithm>
#include <utility>

namespace dllm::decode {

void ArrayReplay::launch(const std::vector<Slot*>& slots, int64_t limit, bool watched,
                         const Task* task) {
  std::map<int64_t, std::vector<Slot*>> by_method;
  for (Slot* slot : slots) {
    if (!launched_.contains(slot->number())) by_method[slot->method()->number()].push_back(slot);
  }
  for (const auto& [number, alike] : by_method) launch_alike(alike, limit, watched, task);
}

std::vector<Change> ArrayReplay::replay(const std::vector<Slot*>& slots) {
  std::vector<Change> changes;
  for (Slot* slot : slots) {
    if (!slot->is_active()) continue;
    parts_.failures.succeeds(*slot, [&] { changes.push_back(replay_step(*slot)); });
  }
  return changes;
}

// Runs the program of slots of one method. Slots with similar windows share a launch.
void ArrayReplay::launch_alike(const std::vector<Slot*>& slots, int64_t limit, bool watched,
                               const Task* task) {
  const Weights weights = parts_.weights.take(task);
  check_task(task);
  std::vector<PassRow> passes;
  for (Slot* slot : slots) {
    slot->plan_pass();
    passes.push_back({&slot->request(), &slot->pass()});
  }
  for (const std::vector<size_t>& group : window_groups(passes, parts_.passes.rounding())) {
    std::vector<Slot*> own;
    for (const size_t i : group) own.push_back(slots[i]);
    try {
      launch_together(own, weights, limit, watched, task);
    } catch (const Error& error) {
      if (!Failures::is_of_request(error)) throw;
      for (Slot* slot : own) parts_.failures.fail(*slot, error);
    }
  }
}

void ArrayReplay::launch_together(const std::vector<Slot*>& slots, const Weights& weights,
                                  int64_t limit, bool watched, const Task* task) {
  const Method& method = *slots[0]->method();
  std::vector<ArrayRow> rows;
  for (const Slot* slot : slots) {
    rows.push_back(
        {&slot->request(), &slot->pass(), static_cast<const ArraySession*>(&slot->session())});
  }
  const int64_t most = std::min(limit, method.array_limit());
  watched =
      watched || std::ranges::any_of(slots, [](const Slot* s) { return s->trace() != nullptr; });
  const auto record = std::make_shared<const ArrayRecord>(
      method.arrays()->run(rows, parts_.state, weights, most, watched, task));
  parts_.launches.add(slots, true);
  parts_.launches.add_computed(record->computed());
  for (size_t r = 0; r < slots.size(); ++r)
    launched_[slots[r]->number()] = {record, static_cast<int64_t>(r), 0};
}

Change ArrayReplay::replay_step(Slot& slot) {
  const Launched own = launched_.at(slot.number());
  launched_.erase(slot.number());
  slot.plan_pass();
  slot.predictions().clear();
  const bool has_text = own.record->has_text(own.next, own.row);
  for (const int64_t position : has_text ? slot.pass().positions : std::vector<int64_t>()) {
    slot.predictions().push_back(own.record->prediction(own.next, own.row, position));
    if (!is_finite(slot.predictions().back()))
      throw not_finite(position, slot.method()->passes().banned);
  }
  Trial trial = slot.try_step();
  const size_t count = slot.request().array.size();
  trial.request.array = own.record->array(own.next, own.row, count);
  trial.request.previous = own.record->previous(own.next, own.row, count);
  // A block that ended leaves steps of the other rows.
  const bool goes_on = trial.request.active() && trial.request.step_in_block > 0;
  if (own.next + 1 < own.record->steps() && goes_on)
    launched_[slot.number()] = {own.record, own.row, own.next + 1};
  return slot.accept(std::move(trial));
}

} // namespace dllm::decode
