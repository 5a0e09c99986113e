// The passes of a step. Requests run together if their shapes allow it.

#include "base/error.h"
#include "decode/decoder/decoder.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace dllm::decode {
namespace {

// Limit of passes before a step. It ends a policy that only fills caches and never decides.
constexpr int kMostPasses = 64;

} // namespace

std::vector<Change> Decoder::advance_tokens(const std::vector<Slot*>& slots, const Task* task) {
  const Weights weights = predict_all(slots, task);
  std::vector<Change> changes;
  for (Slot* slot : slots) {
    if (slot->failure() != nullptr) continue;
    if (!slot->is_predicted()) { // the request ended while its cache was filled
      changes.push_back(slot->finish({}));
      continue;
    }
    failures_.succeeds(
        *slot, [&] { changes.push_back(slot->accept(constrained_step(*slot, weights, task))); });
  }
  return changes;
}

Weights Decoder::predict_all(const std::vector<Slot*>& slots, const Task* task) {
  Weights weights = take_weights(task);
  state_.recover();
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
      };
      if (!failures_.succeeds(*slot, plan)) continue;
      (slot->pass().kind == PassKind::step ? stepping : filling).push_back(slot);
    }
    const std::vector<Slot*>& now = filling.empty() ? stepping : filling;
    run_passes(now, weights, task);
    waiting = filling.empty() ? std::vector<Slot*>() : std::move(stepping);
    for (Slot* slot : now) {
      if (!slot->is_active()) continue;
      if (slot->pass().kind == PassKind::step) {
        slot->set_predicted(failures_.succeeds(*slot, [&] { constrain(*slot, weights, task); }));
        continue;
      }
      failures_.succeeds(*slot, [&] { slot->end_filling(); });
      if (slot->is_active()) waiting.push_back(slot);
    }
  }
  return weights;
}

void Decoder::run_passes(const std::vector<Slot*>& slots, const Weights& weights, const Task* task,
                         int64_t least_rows) {
  check_task(task);
  std::map<PassKey, std::vector<Slot*>> alike;
  for (Slot* slot : slots) {
    if (slot->pass().end > slot->pass().begin)
      alike[PassKey(slot->pass(), slot->method()->passes())].push_back(slot);
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
      run_pass_of(own_slots, own_rows, weights, task, least_rows);
    }
  }
}

// Runs one program. If it fails because of what its rows need, all of its requests fail.
void Decoder::run_pass_of(const std::vector<Slot*>& slots, std::span<const PassRow> rows,
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

std::vector<Prediction> Decoder::repeat_pass(Slot& slot, const PassSettings& settings,
                                             const Weights& weights, const Task* task) {
  const PassRow row = slot.pass_row();
  RowAnswer answer = program_.run({&row, 1}, settings, state_, weights, capacity_, task).front();
  launches_.add({&slot}, true);
  if (answer.failure != nullptr) throw Error(*answer.failure);
  return std::move(answer.predictions);
}

Weights Decoder::take_weights(const Task* task) {
  Weights weights = weights_of(*model_, task);
  if (weights.version == version_) return weights;
  if (admission_.method().options().str("on_change") == "fail") {
    fail_with_hint("make a new decoder, or set on_change to continue", Code::failed_precondition,
                   "the model's weights changed from version {} to {}", version_, weights.version);
  }
  state_.lose();
  // The old weights made the predictions.
  for (auto& [number, slot] : slots_.all()) slot.set_predicted(false);
  version_ = weights.version;
  return weights;
}

// Programs of arrays run first, because they change no canvas: so a cancel or a failure of the
// engine leaves every canvas as it was.
std::vector<Change> Decoder::advance_all(const std::vector<Slot*>& active, int64_t limit,
                                         const Task* task) {
  std::vector<Slot*> arrays, tokens;
  for (Slot* slot : active) (slot->method()->arrays() != nullptr ? arrays : tokens).push_back(slot);
  launch_arrays(arrays, limit, task);
  std::vector<Change> changes;
  if (in_loop(tokens)) {
    changes = take_in_loop(tokens, limit, task);
  } else if (!tokens.empty()) {
    loops_.reset(); // its record is outdated, because the canvas changes now
    changes = advance_tokens(tokens, task);
  }
  std::ranges::move(replay_arrays(arrays), std::back_inserter(changes));
  std::ranges::sort(changes, {}, &Change::request);
  return changes;
}

} // namespace dllm::decode
