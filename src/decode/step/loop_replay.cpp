#include "decode/step/loop_replay.h"

#include "base/error.h"
#include "decode/pass/pass.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dllm::decode {

bool LoopReplay::is_possible(const std::vector<Slot*>& slots) {
  return !slots.empty() && std::all_of(slots.begin(), slots.end(), [](const Slot* slot) {
    return slot->method()->loop() != nullptr && !slot->is_predicted() &&
           slot->request().settings.constraint == nullptr;
  });
}

std::vector<Change> LoopReplay::take(const std::vector<Slot*>& slots, int64_t limit,
                                     const Task* task) {
  if (!launched_) launch(slots, limit, task);
  return replay();
}

// Runs passes that only write K and V, until the window of every slot is the one of all steps of
// its block.
std::vector<LoopPlan> LoopReplay::fill_caches(const std::vector<Slot*>& slots,
                                              const Weights& weights, const Task* task) {
  std::vector<LoopPlan> plans(slots.size());
  std::vector<size_t> unplanned(slots.size());
  std::iota(unplanned.begin(), unplanned.end(), size_t{0});
  // First the session's own passes run, then one pass over decided positions that are not cached.
  while (!unplanned.empty()) {
    std::vector<size_t> filling;
    std::vector<Slot*> owners;
    for (const size_t i : unplanned) {
      Slot& slot = *slots[i];
      PassRequest& pass = plans[i].pass;
      if (!slot.is_active() ||
          !parts_.failures.succeeds(slot, [&] { plans[i] = slot.plan_loop(); }))
        continue;
      const bool behind =
          pass.cached && pass.begin < pass.final_end - slot.method()->passes().shift;
      if (pass.kind == PassKind::step && !behind) continue;
      PassRequest fill = pass;
      fill.positions.clear();
      fill.soft.clear();
      fill.end = pass.final_end;
      slot.set_pass(std::move(fill));
      filling.push_back(i);
      owners.push_back(&slot);
    }
    if (filling.empty()) break;
    parts_.passes.run(owners, weights, task, std::ssize(slots));
    for (Slot* slot : owners) {
      if (!slot->is_active() || slot->pass().kind == PassKind::step) continue;
      parts_.failures.succeeds(*slot, [&] { slot->end_filling(); });
    }
    unplanned = std::move(filling);
  }
  return plans;
}

void LoopReplay::launch(const std::vector<Slot*>& slots, int64_t limit, const Task* task) {
  const Weights weights = parts_.weights.take(task);
  parts_.state.recover();
  check_task(task);
  const std::vector<LoopPlan> plans = fill_caches(slots, weights, task);
  check_task(task);
  std::map<int64_t, std::vector<size_t>> by_method;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i]->is_active()) by_method[slots[i]->method()->number()].push_back(i);
  }
  Launched launched;
  for (const auto& one : by_method) {
    std::vector<Slot*> own;
    std::vector<LoopRow> rows;
    for (const size_t i : one.second) {
      Slot& slot = *slots[i];
      own.push_back(&slot);
      rows.push_back({&slot.request(), &plans[i], &slot.session(), slot.cache_row().number()});
    }
    launch_alike(own, rows, weights, limit, task, launched);
  }
  launched_.emplace(std::move(launched));
}

// Launches the loop for slots of one method. Slots with similar windows share a launch.
void LoopReplay::launch_alike(const std::vector<Slot*>& slots, std::span<const LoopRow> rows,
                              const Weights& weights, int64_t limit, const Task* task,
                              Launched& launched) {
  std::vector<PassRow> passes;
  for (const LoopRow& row : rows) passes.push_back({row.request, &row.plan->pass, row.cache_row});
  for (const std::vector<size_t>& group : window_groups(passes)) {
    std::vector<LoopRow> own_rows;
    std::vector<Slot*> own_slots;
    for (const size_t i : group) own_rows.push_back(rows[i]), own_slots.push_back(slots[i]);
    try {
      launched.launches.push_back(launch_together(own_slots, own_rows, weights, limit, task));
    } catch (const Error& error) {
      if (!Failures::is_of_request(error)) throw;
      for (Slot* own : own_slots) parts_.failures.fail(*own, error);
    }
  }
}

LoopReplay::Launch LoopReplay::launch_together(const std::vector<Slot*>& slots,
                                               std::span<const LoopRow> rows,
                                               const Weights& weights, int64_t limit,
                                               const Task* task) {
  LoopProgram& loop = *slots[0]->method()->loop();
  Launch launch{loop.run(rows, parts_.state, weights, limit, 0, task), {}};
  parts_.launches.add(slots, true);
  parts_.launches.add_computed(launch.record.computed());
  for (size_t i = 0; i < rows.size(); ++i) {
    launch.slots.push_back(slots[i]->number());
    slots[i]->cache_row().keep_final(slots[i]->request(), rows[i].plan->pass);
  }
  return launch;
}

int64_t LoopReplay::Launched::most_steps() const {
  int64_t most = 0;
  for (const Launch& launch : launches) most = std::max(most, launch.record.most_steps());
  return most;
}

// Returns the rows that took the next step, by the number of the slot.
std::map<int64_t, LoopReplay::Row> LoopReplay::rows_of_step(const Launched& launched) {
  std::map<int64_t, Row> rows;
  for (const Launch& launch : launched.launches) {
    for (size_t r = 0; r < launch.slots.size(); ++r) {
      const auto row = static_cast<int64_t>(r);
      Slot& slot = parts_.slots.at(launch.slots[r]);
      // A request that decided its stop token is done, even if the loop went on.
      if (!slot.is_active() || launched.next >= launch.record.steps(row)) continue;
      rows.emplace(slot.number(), Row{&slot, &launch.record, row});
    }
  }
  return rows;
}

// Replays the next step of every row that took one, in the order of the slots.
std::vector<Change> LoopReplay::replay() {
  Launched launched = std::move(*launched_);
  launched_.reset();
  std::vector<Change> changes;
  for (const auto& one : rows_of_step(launched)) {
    const Row& own = one.second;
    parts_.failures.succeeds(*own.slot, [&] {
      replay_predictions(own, launched.next);
      changes.push_back(replay_step(own, launched.next));
    });
  }
  if (++launched.next < launched.most_steps()) launched_.emplace(std::move(launched));
  return changes;
}

void LoopReplay::replay_predictions(const Row& own, int64_t step) {
  Slot& slot = *own.slot;
  const int64_t begin = slot.request().block_begin();
  slot.plan_pass();
  slot.predictions().clear();
  for (const int64_t position : slot.pass().positions) {
    slot.predictions().push_back(own.record->prediction(step, own.row, position - begin, position));
    if (is_finite(slot.predictions().back())) continue;
    slot.cache_row().clear();
    throw not_finite(position, own.record->banned());
  }
}

Change LoopReplay::replay_step(const Row& own, int64_t step) {
  const Request& before = own.slot->request();
  const int64_t begin = before.block_begin(), end = before.block_end(), number = before.steps;
  Trial trial = own.slot->try_step();
  const Request& request = trial.request;
  for (int64_t position = begin; position < end; ++position) {
    if (request.states[static_cast<size_t>(position)] == State::fixed) continue;
    const int32_t host =
        request.is_open(position) ? -1 : request.ids[static_cast<size_t>(position)];
    const int32_t device = own.record->after(step, own.row, position - begin);
    if (host == device) continue;
    fail_with_hint("set loop to host, and report this", Code::internal,
                   "slot {}, step {}, position {}: the loop decided {}, the host {} (-1: masked)",
                   request.number, number, position, device, host);
  }
  const bool last = step + 1 == own.record->steps(own.row);
  const bool over = trial.outcome.block_ended;
  if (over != (last && !own.record->goes_on(own.row))) {
    fail_with_hint("set loop to host, and report this", Code::internal,
                   "slot {}, step {}, position {}: the block is {} for the host only",
                   request.number, number, begin, over ? "over" : "not over");
  }
  return own.slot->accept(std::move(trial));
}

} // namespace dllm::decode
