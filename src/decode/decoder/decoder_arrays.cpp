// Steps of policies over arrays. A program takes one step or many, and the host replays its record
// through the sessions, so that events, traces and metrics come as with tokens.

#include "base/error.h"
#include "decode/array/array_policy.h"
#include "decode/decoder/decoder.h"

#include <map>

namespace dllm::decode {

// Launches the programs of the requests that have no step to replay. Changes no canvas.
void Decoder::launch_arrays(const std::vector<Entry*>& active, int64_t limit, const Task* task) {
  std::map<int64_t, std::vector<Entry*>> by_method;
  for (Entry* entry : active) {
    if (entry->arrays.record == nullptr) by_method[entry->method->number()].push_back(entry);
  }
  for (const auto& [number, requests] : by_method) launch_arrays_alike(requests, limit, task);
}

// Replays one step of every request.
std::vector<Decoder::Change> Decoder::replay_arrays(const std::vector<Entry*>& active) {
  std::vector<Change> changes;
  for (Entry* entry : active) {
    if (!entry->request.active()) continue;
    succeeds(*entry, [&] { changes.push_back(replay_array_step(*entry)); });
  }
  return changes;
}

// Runs the program of requests of one method. Requests with similar windows share a launch.
void Decoder::launch_arrays_alike(const std::vector<Entry*>& requests, int64_t limit,
                                  const Task* task) {
  const Weights weights = take_weights(task);
  check_task(task);
  const Method& method = *requests[0]->method;
  std::vector<PassRow> passes;
  for (Entry* entry : requests) {
    plan_pass(*entry);
    passes.push_back({&entry->request, &entry->pass});
  }
  for (const std::vector<size_t>& group : window_groups(passes, program_.rounding())) {
    std::vector<ArrayRow> rows;
    for (const size_t i : group) {
      const Entry& entry = *requests[i];
      rows.push_back(
          {&entry.request, &entry.pass, static_cast<const ArraySession*>(entry.session.get())});
    }
    const int64_t most = std::min(limit, method.array_limit());
    try {
      const auto record = std::make_shared<const ArrayRecord>(
          method.arrays()->run(rows, state_, weights, most, task));
      loop_computed_ += record->computed();
      ++launches_;
      ++round_trips_;
      for (size_t r = 0; r < group.size(); ++r) {
        Entry& entry = *requests[group[r]];
        entry.arrays = {record, static_cast<int64_t>(r), 0};
        ++entry.request.launches;
        ++entry.request.round_trips;
      }
    } catch (const Error& error) {
      if (!is_of_request(error)) throw;
      for (const size_t i : group) fail_request(*requests[i], error);
    }
  }
}

Decoder::Change Decoder::replay_array_step(Entry& entry) {
  const ArrayReplay replay = entry.arrays;
  entry.arrays = {};
  plan_pass(entry);
  entry.predictions.clear();
  for (const int64_t position : entry.pass.positions) {
    entry.predictions.push_back(replay.record->prediction(replay.next, replay.row, position));
    if (!is_finite(entry.predictions.back()))
      throw not_finite(position, entry.method->passes().banned);
  }
  Trial trial = try_step(entry);
  trial.request.array = replay.record->array(replay.next, replay.row, entry.request.length());
  if (replay.next + 1 < replay.record->steps() && trial.request.active())
    entry.arrays = {replay.record, replay.row, replay.next + 1};
  return accept(entry, std::move(trial));
}

} // namespace dllm::decode
