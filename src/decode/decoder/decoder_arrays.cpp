#include "decode/decoder/decoder.h"

#include "base/error.h"
#include "decode/array/array_policy.h"

#include <algorithm>
#include <utility>

namespace dllm::decode {

void Decoder::launch_arrays(const std::vector<Slot*>& slots, int64_t limit, const Task* task) {
  std::map<int64_t, std::vector<Slot*>> by_method;
  for (Slot* slot : slots) {
    if (!arrays_.contains(slot->number())) by_method[slot->method()->number()].push_back(slot);
  }
  for (const auto& [number, alike] : by_method) launch_arrays_alike(alike, limit, task);
}

std::vector<Change> Decoder::replay_arrays(const std::vector<Slot*>& slots) {
  std::vector<Change> changes;
  for (Slot* slot : slots) {
    if (!slot->is_active()) continue;
    failures_.succeeds(*slot, [&] { changes.push_back(replay_array_step(*slot)); });
  }
  return changes;
}

// Runs the program of slots of one method. Slots with similar windows share a launch.
void Decoder::launch_arrays_alike(const std::vector<Slot*>& slots, int64_t limit,
                                  const Task* task) {
  const Weights weights = take_weights(task);
  check_task(task);
  std::vector<PassRow> passes;
  for (Slot* slot : slots) {
    slot->plan_pass();
    passes.push_back({&slot->request(), &slot->pass()});
  }
  for (const std::vector<size_t>& group : window_groups(passes, program_.rounding())) {
    std::vector<Slot*> own;
    for (const size_t i : group) own.push_back(slots[i]);
    try {
      launch_array(own, weights, limit, task);
    } catch (const Error& error) {
      if (!Failures::is_of_request(error)) throw;
      for (Slot* slot : own) failures_.fail(*slot, error);
    }
  }
}

void Decoder::launch_array(const std::vector<Slot*>& slots, const Weights& weights, int64_t limit,
                           const Task* task) {
  const Method& method = *slots[0]->method();
  std::vector<ArrayRow> rows;
  for (const Slot* slot : slots) {
    rows.push_back(
        {&slot->request(), &slot->pass(), static_cast<const ArraySession*>(&slot->session())});
  }
  const int64_t most = std::min(limit, method.array_limit());
  const auto record =
      std::make_shared<const ArrayRecord>(method.arrays()->run(rows, state_, weights, most, task));
  launches_.add(slots, true);
  launches_.add_computed(record->computed());
  for (size_t r = 0; r < slots.size(); ++r)
    arrays_[slots[r]->number()] = {record, static_cast<int64_t>(r), 0};
}

Change Decoder::replay_array_step(Slot& slot) {
  const LaunchedArray own = std::move(arrays_.extract(slot.number()).mapped());
  slot.plan_pass();
  slot.predictions().clear();
  for (const int64_t position : slot.pass().positions) {
    slot.predictions().push_back(own.record->prediction(own.next, own.row, position));
    if (!is_finite(slot.predictions().back()))
      throw not_finite(position, slot.method()->passes().banned);
  }
  Trial trial = slot.try_step();
  trial.request.array = own.record->array(own.next, own.row, slot.request().length());
  if (own.next + 1 < own.record->steps() && trial.request.active())
    arrays_[slot.number()] = {own.record, own.row, own.next + 1};
  return slot.accept(std::move(trial));
}

} // namespace dllm::decode
