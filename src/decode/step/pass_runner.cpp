#include "decode/step/pass_runner.h"

#include "base/error.h"

#include <algorithm>
#include <map>
#include <utility>

namespace dllm::decode {

PassRunner::PassRunner(const std::shared_ptr<model::Model>& model, DecodeState& state,
                       Failures& failures, LaunchCount& launches)
    : state_(state), failures_(failures), launches_(launches), program_(model),
      pool_(model->engine().threads()) {}

void PassRunner::run(const std::vector<Slot*>& slots, const Weights& weights, const Task* task,
                     int64_t least_rows) {
  check_task(task);
  std::map<PassKey, std::vector<Slot*>> alike;
  for (Slot* slot : slots) {
    if (slot->pass().end <= slot->pass().begin) continue;
    const bool may_differ = program_.may_differ(slot->pass(), weights);
    alike[PassKey(slot->pass(), slot->method()->passes(), may_differ)].push_back(slot);
  }
  for (const auto& [key, owners] : alike) {
    std::vector<PassRow> rows;
    int64_t positions = 0;
    for (const Slot* slot : owners) {
      rows.push_back(slot->pass_row());
      positions += std::ssize(slot->pass().positions);
    }
    capacity_ = std::max(capacity_, positions);
    for (const std::vector<size_t>& group : window_groups(rows, program_.rounding())) {
      std::vector<PassRow> own_rows;
      std::vector<Slot*> own_slots;
      for (const size_t i : group) own_rows.push_back(rows[i]), own_slots.push_back(owners[i]);
      run_together(own_slots, own_rows, weights, task, least_rows);
    }
  }
}

// Runs one program. If it fails because of what its rows need, all of its requests fail.
void PassRunner::run_together(const std::vector<Slot*>& slots, std::span<const PassRow> rows,
                              const Weights& weights, const Task* task, int64_t least_rows) {
  std::vector<RowAnswer> answers;
  try {
    answers = program_.run(rows, slots[0]->method()->passes(), state_, weights, capacity_, task,
                           least_rows);
  } catch (const Error& error) {
    if (!Failures::is_of_request(error)) throw;
    for (Slot* slot : slots) failures_.fail(*slot, error);
    return;
  }
  const bool waited = std::any_of(rows.begin(), rows.end(),
                                  [](const PassRow& row) { return !row.pass->positions.empty(); });
  launches_.add(slots, waited);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (answers[i].failure != nullptr)
      failures_.fail(*slots[i], *answers[i].failure);
    else
      slots[i]->end_pass(std::move(answers[i].predictions));
  }
}

std::vector<Prediction> PassRunner::repeat(Slot& slot, const std::vector<int64_t>& positions,
                                           std::span<const BanRow> banned, const Weights& weights,
                                           const Task* task) {
  PassRequest pass = slot.pass();
  pass.positions = positions;
  const PassRow row{&slot.request(), &pass, slot.pass_row().cache_row, banned};
  RowAnswer answer =
      program_.run({&row, 1}, slot.method()->passes(), state_, weights, 0, task).front();
  launches_.add({&slot}, true);
  if (answer.failure != nullptr) throw Error(*answer.failure);
  return std::move(answer.predictions);
}

} // namespace dllm::decode
