// Steps that run as a loop on the engine. One launch takes all rows to the end of their blocks.
// Then the host replays the record through the same sessions as without a loop. So the canvas on
// the host stays the truth, and the host detects a loop that decides otherwise.

#include "base/error.h"
#include "decode/decoder/decoder.h"
#include "decode/pass/pass.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace dllm::decode {

// Returns whether the step can run in a loop. The host ends a step that it began (predict), and it
// checks constraints.
bool Decoder::in_loop(const std::vector<Entry*>& active) const {
  return !active.empty() && std::all_of(active.begin(), active.end(), [](const Entry* entry) {
    return entry->method->loop() != nullptr && !entry->predicted &&
           entry->request.settings.constraint == nullptr;
  });
}

// Runs passes that only write K and V, until the window of every request is the one of all steps of
// its block.
std::vector<LoopPlan> Decoder::fill_caches(const std::vector<Entry*>& active,
                                           const Weights& weights, const Task* task) {
  std::vector<LoopPlan> plans(active.size());
  std::vector<size_t> unplanned(active.size());
  std::iota(unplanned.begin(), unplanned.end(), size_t{0});
  // First the session's own passes run, then one pass over decided positions that are not cached.
  while (!unplanned.empty()) {
    std::vector<size_t> filling;
    std::vector<Entry*> owners;
    for (const size_t i : unplanned) {
      Entry& entry = *active[i];
      PassRequest& pass = plans[i].pass;
      const auto plan = [&] {
        plans[i] = entry.session->plan_loop(entry.request, entry.cache_row.view(entry.request));
        entry.cache_row.place(entry.request, pass);
      };
      if (!entry.request.active() || !succeeds(entry, plan)) continue;
      const bool behind = pass.cached && pass.begin < pass.final_end - entry.method->passes().shift;
      if (pass.kind == PassKind::step && !behind) continue;
      PassRequest fill = pass;
      fill.positions.clear();
      fill.soft.clear();
      fill.end = pass.final_end;
      set_pass(entry, std::move(fill));
      filling.push_back(i);
      owners.push_back(&entry);
    }
    if (filling.empty()) break;
    run_passes(owners, weights, task, static_cast<int64_t>(active.size()));
    for (Entry* entry : owners) {
      if (!entry->request.active() || entry->pass.kind == PassKind::step) continue;
      succeeds(*entry, [&] { end_filling(*entry); });
    }
    unplanned = std::move(filling);
  }
  return plans;
}

void Decoder::launch(const std::vector<Entry*>& active, int64_t limit, const Task* task) {
  const Weights weights = take_weights(task);
  state_.recover();
  check_task(task);
  const std::vector<LoopPlan> plans = fill_caches(active, weights, task);
  check_task(task);
  std::map<int64_t, std::vector<size_t>> by_method;
  for (size_t i = 0; i < active.size(); ++i) {
    if (active[i]->request.active()) by_method[active[i]->method->number()].push_back(i);
  }
  Replay replay;
  for (const auto& one : by_method) {
    std::vector<Entry*> requests;
    std::vector<LoopRow> rows;
    for (const size_t i : one.second) {
      const Entry& entry = *active[i];
      requests.push_back(active[i]);
      rows.push_back({&entry.request, &plans[i], entry.session.get(), entry.cache_row.number()});
    }
    launch_alike(requests, rows, weights, limit, task, replay);
  }
  replay_.emplace(std::move(replay));
}

// Launches the loop for requests of one method. Requests with similar windows share a launch.
void Decoder::launch_alike(const std::vector<Entry*>& requests, std::span<const LoopRow> rows,
                           const Weights& weights, int64_t limit, const Task* task,
                           Replay& replay) {
  std::vector<PassRow> passes;
  for (const LoopRow& row : rows) passes.push_back({row.request, &row.plan->pass, row.cache_row});
  for (const std::vector<size_t>& group : window_groups(passes)) {
    std::vector<LoopRow> own_rows;
    std::vector<Entry*> own_requests;
    for (const size_t i : group) own_rows.push_back(rows[i]), own_requests.push_back(requests[i]);
    try {
      replay.parts.push_back(launch_loop(own_requests, own_rows, weights, limit, task));
    } catch (const Error& error) {
      if (!is_of_request(error)) throw;
      for (Entry* own : own_requests) fail_request(*own, error);
    }
  }
}

Decoder::Replay::Part Decoder::launch_loop(const std::vector<Entry*>& requests,
                                           std::span<const LoopRow> rows, const Weights& weights,
                                           int64_t limit, const Task* task) {
  LoopProgram& loop = *requests[0]->method->loop();
  Replay::Part part{loop.run(rows, state_, weights, limit, 0, task), {}};
  loop_computed_ += part.record.computed();
  ++launches_;
  ++round_trips_;
  for (size_t i = 0; i < rows.size(); ++i) {
    Entry& entry = *requests[i];
    part.slots.push_back(entry.request.number);
    ++entry.request.launches;
    ++entry.request.round_trips;
    entry.cache_row.keep_final(entry.request, rows[i].plan->pass);
  }
  return part;
}

// Drops what programs recorded and the host has not replayed: the canvases may change otherwise.
void Decoder::drop_replays() {
  replay_.reset();
  for (auto& [number, entry] : requests_) entry.arrays = {};
}

int64_t Decoder::Replay::most_steps() const {
  int64_t most = 0;
  for (const Part& part : parts) most = std::max(most, part.record.most_steps());
  return most;
}

// Replays the next step of every row that took one, in the order of the requests.
std::vector<Decoder::Change> Decoder::replay() {
  Replay replay = std::move(*replay_);
  replay_.reset();
  struct Row {
    Entry* entry;
    const LoopRecord* record;
    int64_t row;
  };
  std::map<int64_t, Row> moved; // by number of the request
  for (const Replay::Part& part : replay.parts) {
    for (size_t r = 0; r < part.slots.size(); ++r) {
      const auto row = static_cast<int64_t>(r);
      Entry& held = entry(part.slots[r]);
      // A request that decided its stop token is done, even if the loop went on.
      if (!held.request.active() || replay.next >= part.record.steps(row)) continue;
      moved.emplace(part.slots[r], Row{&held, &part.record, row});
    }
  }
  std::vector<Change> changes;
  for (const auto& one : moved) {
    const Row& own = one.second;
    succeeds(*own.entry, [&] {
      replay_predictions(*own.entry, *own.record, replay.next, own.row);
      changes.push_back(replay_step(*own.entry, *own.record, replay.next, own.row));
    });
  }
  if (++replay.next < replay.most_steps()) replay_.emplace(std::move(replay));
  return changes;
}

void Decoder::replay_predictions(Entry& entry, const LoopRecord& record, int64_t step,
                                 int64_t row) {
  const int64_t begin = entry.request.block_begin();
  plan_pass(entry);
  entry.predictions.clear();
  for (const int64_t position : entry.pass.positions) {
    entry.predictions.push_back(record.prediction(step, row, position - begin, position));
    if (is_finite(entry.predictions.back())) continue;
    entry.cache_row.clear();
    throw not_finite(position, record.banned());
  }
}

Decoder::Change Decoder::replay_step(Entry& entry, const LoopRecord& record, int64_t step,
                                     int64_t row) {
  const int64_t begin = entry.request.block_begin(), end = entry.request.block_end(),
                number = entry.request.steps;
  Trial trial = try_step(entry);
  const Request& request = trial.request;
  for (int64_t position = begin; position < end; ++position) {
    if (request.states[static_cast<size_t>(position)] == State::fixed) continue;
    const int32_t host =
        request.is_open(position) ? -1 : request.ids[static_cast<size_t>(position)];
    const int32_t device = record.after(step, row, position - begin);
    if (host == device) continue;
    fail_with_hint("set loop to host, and report this", Code::internal,
                   "slot {}, step {}, position {}: the loop decided {}, the host {} (-1: masked)",
                   request.number, number, position, device, host);
  }
  const bool last = step + 1 == record.steps(row);
  const bool over = trial.outcome.block_ended;
  if (over != (last && !record.goes_on(row))) {
    fail_with_hint("set loop to host, and report this", Code::internal,
                   "slot {}, step {}, position {}: the block is {} for the host only",
                   request.number, number, begin, over ? "over" : "not over");
  }
  return accept(entry, std::move(trial));
}

} // namespace dllm::decode
