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

// One pass for every request that asked for a window; requests of one kind share a program.
void Decoder::run_passes(const std::vector<Request*>& requests, const Task* task) {
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
    if (rows.empty()) continue;
    capacity_ = std::max(capacity_, positions);
    std::vector<std::vector<Prediction>> answers = program_.run(rows, state_, capacity_, task);
    for (size_t i = 0; i < rows.size(); ++i) {
      owners[i]->predictions = std::move(answers[i]);
      const Ask& ask = owners[i]->asked;
      if (!ask.cached) continue;
      // A window over final positions may have changed them: what is not final any more is
      // forgotten.
      state_.rewind(owners[i]->cache_row, std::max(ask.begin, ask.final_end));
      state_.commit(owners[i]->cache_row, owners[i]->slot.ids, ask.final_end);
    }
  }
}

void Decoder::predict_all(const std::vector<Request*>& requests, const Task* task) {
  check_weights();
  state_.recover();
  std::vector<Request*> waiting;
  for (Request* request : requests) {
    if (!request->predicted) waiting.push_back(request);
  }
  for (int pass = 0; !waiting.empty(); ++pass) {
    if (pass == kMostPasses)
      fail(Code::internal, "a request took {} passes without a step", kMostPasses);
    for (Request* request : waiting) {
      Slot& slot = request->slot;
      CacheView view;
      if (request->cache_row >= 0) view = state_.view(request->cache_row);
      request->asked = request->session->ask(slot, view);
      if (request->asked.cached && request->cache_row < 0) {
        const auto open = std::find(slot.states.begin(), slot.states.end(), State::masked);
        const auto known = static_cast<size_t>(open - slot.states.begin());
        request->cache_row = state_.acquire(
            slot.length(), std::span<const int32_t>(slot.ids).first(known), slot.sight);
        request->asked = request->session->ask(slot, state_.view(request->cache_row));
      }
    }
    run_passes(waiting, task);
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

std::vector<Decoder::Change> Decoder::advance(const Task* task) {
  const std::vector<Request*> active = active_requests();
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
  advance(task);
  return active_count();
}

void Decoder::predict(const Task* task) {
  const std::vector<Request*> active = active_requests();
  if (active.empty()) {
    fail_with_hint("add a request, or read the ids of the finished ones", Code::failed_precondition,
                   "no slot has open positions");
  }
  predict_all(active, task);
}

Batch Decoder::statistics(int64_t number) const {
  const Request& held = request(number);
  if (!held.predicted) {
    fail_with_hint("call dllmx_decoder_predict first", Code::failed_precondition,
                   "slot {} has no predictions", number);
  }
  const std::vector<Prediction>& all = held.predictions;
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
  Request& held = request(number);
  if (!held.predicted) {
    fail_with_hint("call dllmx_decoder_predict first", Code::failed_precondition,
                   "slot {} has no predictions", number);
  }
  if (positions.size() != tokens.size())
    fail(Code::invalid_argument, "{} positions and {} tokens", positions.size(), tokens.size());
  const auto predicted = [&](int64_t position) {
    return std::find_if(held.predictions.begin(), held.predictions.end(),
                        [&](const Prediction& p) { return p.position == position; });
  };
  for (size_t i = 0; i < positions.size(); ++i) {
    if (predicted(positions[i]) == held.predictions.end()) {
      fail_with_hint("statistics lists the positions", Code::invalid_argument,
                     "position {} of slot {} was not predicted in this step", positions[i], number);
    }
    if (tokens[i] < 0 || tokens[i] >= model_->config().vocab_size ||
        tokens[i] == model_->config().mask_token_id) {
      fail(Code::invalid_argument,
           "token {} at position {} is no token to decide (0 to {}, mask {})", tokens[i],
           positions[i], model_->config().vocab_size - 1, model_->config().mask_token_id);
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
}

} // namespace dllm::decode
