// The passes of a step: what every request asks for, run together where the shapes allow it.

#include "base/error.h"
#include "decode/decoder.h"

#include <algorithm>

namespace dllm::decode {
namespace {

// A policy that fills caches for ever would never decide.
constexpr int kMostPasses = 64;

} // namespace

std::vector<Decoder::Request*> Decoder::active_requests() {
  if (requests_.empty()) {
    fail_with_hint("call start or add first", Code::failed_precondition,
                   "the decoder holds no request");
  }
  std::vector<Request*> active;
  for (auto& [number, request] : requests_) {
    if (request.slot.active()) active.push_back(&request);
  }
  return active;
}

// One pass for every request that asked for a window; requests of one kind and of similar windows share a program.
void Decoder::run_passes(const std::vector<Request*>& requests, const Weights& weights,
                         const Task* task, int64_t least_rows) {
  check_task(task);
  for (int kind = 0; kind < 8; ++kind) {
    std::vector<PassRow> rows;
    std::vector<Request*> owners;
    int64_t positions = 0;
    for (Request* request : requests) {
      const Ask& ask = request->asked;
      if (ask.end <= ask.begin || StepProgram::kind_of(ask) != kind) continue;
      rows.push_back({&request->slot, &request->asked, request->cache_row});
      owners.push_back(request);
      positions += static_cast<int64_t>(ask.positions.size());
    }
    capacity_ = std::max(capacity_, positions);
    for (const std::vector<size_t>& group : window_groups(rows)) {
      std::vector<PassRow> own_rows;
      std::vector<Request*> own_requests;
      for (const size_t i : group) own_rows.push_back(rows[i]), own_requests.push_back(owners[i]);
      run_pass_of(own_requests, own_rows, weights, task, least_rows);
    }
  }
}

void Decoder::run_pass_of(const std::vector<Request*>& owners, std::span<const PassRow> rows,
                          const Weights& weights, const Task* task, int64_t least_rows) {
  std::vector<std::vector<Prediction>> answers =
      program_.run(rows, state_, weights, capacity_, task, least_rows);
  const bool waited = std::any_of(rows.begin(), rows.end(),
                                  [](const PassRow& row) { return !row.ask->positions.empty(); });
  ++launches_;
  round_trips_ += waited ? 1 : 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    Request& owner = *owners[i];
    owner.predictions = std::move(answers[i]);
    ++owner.slot.launches;
    owner.slot.round_trips += waited ? 1 : 0;
    if (owner.asked.cached) keep_final(owner, owner.asked);
  }
}

// A window over final positions may have changed them: what is not final any more is forgotten.
void Decoder::keep_final(const Request& request, const Ask& ask) {
  state_.commit(request.cache_row, request.slot.ids, ask.begin, ask.final_end);
}

void Decoder::take_cache_row(Request& request) {
  const Slot& slot = request.slot;
  const auto open = std::find(slot.states.begin(), slot.states.end(), State::masked);
  const auto known = static_cast<size_t>(open - slot.states.begin());
  request.cache_row =
      state_.acquire(slot.length(), std::span<const int32_t>(slot.ids).first(known), slot.span);
}

// A pass begins where the state can go on: the positions from there to the window are computed again.
void Decoder::move_to_snapshot(const Request& request, Ask& ask) const {
  if (!ask.cached || ask.end <= ask.begin) return;
  const int64_t begin = state_.start(request.cache_row, ask.begin);
  if (!ask.ids.empty())
    ask.ids.insert(ask.ids.begin(), request.slot.ids.begin() + begin, request.slot.ids.begin() + ask.begin);
  ask.begin = begin;
}

CacheView Decoder::cache_view(const Request& request) const {
  return request.cache_row >= 0 ? state_.view(request.cache_row) : CacheView{};
}

void Decoder::predict_all(const std::vector<Request*>& requests, const Task* task) {
  const Weights weights = take_weights(task);
  state_.recover();
  std::vector<Request*> waiting;
  for (Request* request : requests) {
    if (!request->predicted) waiting.push_back(request);
  }
  for (int pass = 0; !waiting.empty(); ++pass) {
    if (pass == kMostPasses)
      fail(Code::internal, "a request took {} passes without a step", kMostPasses);
    for (Request* request : waiting) {
      const Slot& slot = request->slot;
      request->asked = request->session->ask(slot, cache_view(*request));
      if (request->asked.cached && request->cache_row < 0) {
        take_cache_row(*request);
        request->asked = request->session->ask(slot, cache_view(*request));
      }
      move_to_snapshot(*request, request->asked);
    }
    run_passes(waiting, weights, task);
    std::vector<Request*> again;
    for (Request* request : waiting) {
      if (request->asked.pass == Pass::step) {
        request->predicted = true;
        continue;
      }
      Slot& slot = request->slot;
      ++(request->asked.pass == Pass::prefill ? slot.prefills : slot.commits);
      request->session->apply(slot, request->asked, {});
      if (slot.active()) again.push_back(request);
    }
    waiting = std::move(again);
  }
}

// What a step that failed did to counters is published too.
std::vector<Decoder::Change> Decoder::advance(int64_t limit, const Task* task) {
  const std::vector<Request*> active = active_requests();
  try {
    std::vector<Change> changes = advance(active, limit, task);
    publish(active);
    return changes;
  } catch (...) {
    publish(active);
    throw;
  }
}

std::vector<Decoder::Change> Decoder::advance(const std::vector<Request*>& active, int64_t limit,
                                              const Task* task) {
  if (in_loop(active)) {
    if (!replay_) launch(active, limit, task);
    return replay();
  }
  predict_all(active, task);
  std::vector<Change> changes;
  for (Request* request : active) {
    if (!request->predicted) {
      changes.push_back(finish(*request, {}));
      continue;
    }
    Outcome outcome = request->session->apply(request->slot, request->asked, request->predictions);
    changes.push_back(finish(*request, std::move(outcome)));
  }
  return changes;
}

int64_t Decoder::step(const Task* task) {
  replay_.reset();
  if (is_suspended())
    advance_until(SlicedCall::Clock::time_point::max(), task);
  else
    advance(1, task);
  return active_count();
}

void Decoder::predict(const Task* task) {
  drop_suspended();
  const std::vector<Request*> active = active_requests();
  if (active.empty()) {
    fail_with_hint("add a request, or read the ids of the finished ones", Code::failed_precondition,
                   "no slot has open positions");
  }
  try {
    predict_all(active, task);
  } catch (...) {
    publish(active);
    throw;
  }
  publish(active);
}

namespace {

[[noreturn]] void fail_unpredicted(int64_t number) {
  fail_with_hint("call dllmx_decoder_predict first", Code::failed_precondition,
                 "slot {} has no predictions", number);
}

} // namespace

Batch Decoder::statistics(int64_t number) const {
  const SlotCopyRef held = copy(number);
  if (held->predictions == nullptr) fail_unpredicted(number);
  const std::vector<Prediction>& all = *held->predictions;
  const auto count = static_cast<int64_t>(all.size());
  const int64_t top = all.empty() ? 1 : static_cast<int64_t>(all[0].top_ids.size());
  const auto column = [&](auto value) {
    std::vector<decltype(value(all[0]))> made;
    for (const Prediction& p : all) made.push_back(value(p));
    return Tensor::from(Shape{count}, made);
  };
  Batch batch;
  batch.set("positions",
            column([](const Prediction& p) { return static_cast<int32_t>(p.position); }));
  batch.set("token", column([](const Prediction& p) { return p.token; }));
  batch.set("probability", column([](const Prediction& p) { return p.probability; }));
  batch.set("argmax", column([](const Prediction& p) { return p.argmax; }));
  batch.set("max_probability", column([](const Prediction& p) { return p.max_probability; }));
  batch.set("entropy", column([](const Prediction& p) { return p.entropy; }));
  std::vector<int32_t> ids;
  std::vector<float> probs;
  for (const Prediction& p : all) {
    ids.insert(ids.end(), p.top_ids.begin(), p.top_ids.end());
    probs.insert(probs.end(), p.top_probs.begin(), p.top_probs.end());
  }
  batch.set("top_ids", Tensor::from(Shape{count, top}, ids));
  batch.set("top_probs", Tensor::from(Shape{count, top}, probs));
  return batch;
}

void Decoder::commit(int64_t number, std::span<const int64_t> positions,
                     std::span<const int32_t> tokens) {
  drop_suspended();
  Request& held = request(number);
  if (positions.size() != tokens.size())
    fail(Code::invalid_argument, "{} positions and {} tokens", positions.size(), tokens.size());
  const int64_t vocab = model_->config().vocab_size, length = held.slot.length();
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0 || positions[i] >= length) {
      fail(Code::invalid_argument, "position {} is not on the canvas of slot {}, 0 to {}",
           positions[i], number, length - 1);
    }
    if (tokens[i] < 0 || tokens[i] >= vocab || tokens[i] == mask_id_) {
      fail(Code::invalid_argument,
           "token {} at position {} is no token to decide (0 to {}, mask {})", tokens[i],
           positions[i], vocab - 1, mask_id_);
    }
  }
  if (!held.predicted) fail_unpredicted(number);
  const auto predicted = [&](int64_t position) {
    return std::find_if(held.predictions.begin(), held.predictions.end(),
                        [&](const Prediction& p) { return p.position == position; });
  };
  for (const int64_t position : positions) {
    if (predicted(position) == held.predictions.end()) {
      fail_with_hint("statistics lists the positions", Code::invalid_argument,
                     "position {} of slot {} was not predicted in this step", position, number);
    }
  }
  std::vector<int64_t> decided;
  for (size_t i = 0; i < positions.size(); ++i) {
    const Prediction& p = *predicted(positions[i]);
    const bool likeliest = p.argmax == tokens[i];
    if (held.slot.is_open(positions[i])) decided.push_back(positions[i]);
    held.slot.decide(positions[i], tokens[i], likeliest ? p.max_probability : p.probability);
  }
  finish(held, held.session->settle(held.slot, decided));
  publish({&held});
}

} // namespace dllm::decode
