// Steps that run as a loop on the engine: one launch takes all rows to the end of their blocks,
// then the host repeats what it did from the record, through the same sessions as without a loop.
// So the canvas on the host stays the truth, and a loop that decides otherwise is found out.

#include "base/error.h"
#include "decode/decoder.h"
#include "decode/no_numbers.h"
#include "decode/prediction_line.h"

#include <algorithm>
#include <utility>

namespace dllm::decode {

// The loop of the policy where option loop and the engine want it and the options allow it.
void Decoder::set_loop(const StepSettings& settings) {
  const std::string& wanted = options_.str("loop");
  if (wanted == "host") return stop_loop("option loop is host");
  if (wanted == "auto" && !model_->engine().runs_ahead())
    return stop_loop("the engine does not run ahead of the host");
  LoopOffer offer = policy_->loop();
  if (offer.rule == nullptr) return stop_loop(offer.why_not);
  if (!settings.deferred.empty()) return stop_loop("option defer has no graph form");
  loop_ = std::make_unique<LoopProgram>(model_, settings, std::move(offer.rule));
}

void Decoder::stop_loop(const std::string& why_not) {
  if (options_.str("loop") == "device") {
    fail_with_hint("set loop to auto or host", Code::unimplemented,
                   "policy {} cannot run as a loop on the device: {}", options_.str("policy"),
                   why_not);
  }
  loop_.reset();
  loop_why_ = why_not;
}

// Steps that the host has begun (predict) it ends.
bool Decoder::in_loop(const std::vector<Request*>& active) const {
  return loop_ != nullptr && !active.empty() &&
         std::none_of(active.begin(), active.end(),
                      [](const Request* request) { return request->predicted; });
}

// Passes that only write K and V, until every request's window is the one of all steps of its
// block.
std::vector<LoopAsk> Decoder::fill_caches(const std::vector<Request*>& active,
                                          const Weights& weights, const Task* task) {
  const int64_t shift = program_.shift();
  std::vector<LoopAsk> plans(active.size());
  // A session's own passes, then one over what is decided and not kept.
  for (std::vector<Request*> filling{nullptr}; !filling.empty();) {
    filling.clear();
    for (size_t i = 0; i < active.size(); ++i) {
      Request& request = *active[i];
      LoopAsk& plan = plans[i];
      plan = request.session->loop_ask(request.slot, cache_view(request));
      if (plan.ask.cached && request.cache_row < 0) {
        take_cache_row(request);
        plan = request.session->loop_ask(request.slot, cache_view(request));
      }
      move_to_snapshot(request, plan.ask);
      const bool behind = plan.ask.cached && plan.ask.begin < plan.ask.final_end - shift;
      if (plan.ask.pass == Pass::step && !behind) continue;
      request.asked = plan.ask;
      request.asked.positions.clear();
      request.asked.soft.clear();
      request.asked.end = plan.ask.final_end;
      filling.push_back(&request);
    }
    if (filling.empty()) break;
    run_passes(filling, weights, task, static_cast<int64_t>(active.size()));
    for (Request* request : filling) {
      if (request->asked.pass == Pass::step) continue;
      ++(request->asked.pass == Pass::prefill ? request->slot.prefills : request->slot.commits);
      request->session->apply(request->slot, request->asked, {});
    }
  }
  return plans;
}

void Decoder::launch(const std::vector<Request*>& active, int64_t limit, const Task* task) {
  const Weights weights = take_weights(task);
  state_.recover();
  check_task(task);
  const std::vector<LoopAsk> plans = fill_caches(active, weights, task);
  check_task(task);
  std::vector<LoopRow> rows;
  std::vector<int64_t> slots;
  for (size_t i = 0; i < active.size(); ++i) {
    const Request& request = *active[i];
    rows.push_back({&request.slot, &plans[i], request.session.get(), request.cache_row});
    slots.push_back(request.slot.number);
  }
  LoopRecord record = loop_->run(rows, state_, weights, limit, 0, task);
  ++launches_;
  ++round_trips_;
  for (size_t i = 0; i < active.size(); ++i) {
    ++active[i]->slot.launches;
    ++active[i]->slot.round_trips;
    if (plans[i].ask.cached) keep_final(*active[i], plans[i].ask);
  }
  replay_.emplace(Replay{std::move(record), std::move(slots)});
}

// The next step of every row that took one. What is left of the record is forgotten when a step
// fails; predictions that are no numbers fail it before any canvas is written.
std::vector<Decoder::Change> Decoder::replay() {
  Replay replay = std::move(*replay_);
  replay_.reset();
  std::vector<std::pair<Request*, int64_t>> moved; // with its row
  for (size_t r = 0; r < replay.slots.size(); ++r) {
    const auto row = static_cast<int64_t>(r);
    Request& held = request(replay.slots[r]);
    // A request that met its stop token is done, whatever the loop went on to do.
    if (!held.slot.active() || replay.next >= replay.record.steps(row)) continue;
    replay_predictions(held, replay.record, replay.next, row);
    moved.emplace_back(&held, row);
  }
  std::vector<Change> changes;
  for (const auto& [held, row] : moved)
    changes.push_back(replay_step(*held, replay.record, replay.next, row));
  if (++replay.next < replay.record.most_steps()) replay_.emplace(std::move(replay));
  return changes;
}

void Decoder::replay_predictions(Request& request, const LoopRecord& record, int64_t step,
                                 int64_t row) {
  const int64_t begin = request.slot.block_begin();
  request.asked = request.session->ask(request.slot, cache_view(request));
  request.predictions.clear();
  for (const int64_t position : request.asked.positions) {
    request.predictions.push_back(record.prediction(step, row, position - begin, position));
    if (is_number(request.predictions.back())) continue;
    state_.lend(); // a state that is not finite must not stay
    fail_without_numbers(position, record.banned(), nullptr);
  }
}

Decoder::Change Decoder::replay_step(Request& request, const LoopRecord& record, int64_t step,
                                     int64_t row) {
  Slot& slot = request.slot;
  const int64_t begin = slot.block_begin(), end = slot.block_end(), number = slot.steps;
  Outcome outcome = request.session->apply(slot, request.asked, request.predictions);
  for (int64_t position = begin; position < end; ++position) {
    if (slot.states[static_cast<size_t>(position)] == State::fixed) continue;
    const int32_t host = slot.is_open(position) ? -1 : slot.ids[static_cast<size_t>(position)];
    const int32_t device = record.after(step, row, position - begin);
    if (host == device) continue;
    fail_with_hint("set loop to host, and report this", Code::internal,
                   "slot {}, step {}, position {}: the loop decided {}, the host {} (-1: masked)",
                   slot.number, number, position, device, host);
  }
  const bool last = step + 1 == record.steps(row);
  if (outcome.block_ended != (last && !record.goes_on(row))) {
    fail_with_hint("set loop to host, and report this", Code::internal,
                   "slot {}, step {}, position {}: the block is {} for the host alone", slot.number,
                   number, begin, outcome.block_ended ? "over" : "not over");
  }
  return finish(request, std::move(outcome));
}

} // namespace dllm::decode
