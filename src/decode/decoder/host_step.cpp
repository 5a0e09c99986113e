#include "decode/decoder/host_step.h"

#include "base/error.h"
#include "decode/step/constrained_step.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace dllm::decode {
namespace {

[[noreturn]] void fail_unpredicted(int64_t number) {
  fail_with_hint("call dllmx_decoder_predict first", Code::failed_precondition,
                 "slot {} has no predictions", number);
}

// Returns the prediction of a position; null: it was not predicted.
const Prediction* prediction_at(const Slot& slot, int64_t position) {
  const std::vector<Prediction>& all = slot.predictions();
  const auto found = std::ranges::find(all, position, &Prediction::position);
  return found == all.end() ? nullptr : &*found;
}

// Fails if the host may not write these tokens.
void check_commit(const Slot& slot, std::span<const int64_t> positions,
                  std::span<const int32_t> tokens, int64_t vocab) {
  if (positions.size() != tokens.size())
    fail(Code::invalid_argument,
         "got {} positions and {} tokens, expected a token for each position", positions.size(),
         tokens.size());
  const int64_t length = slot.request().length();
  const int32_t mask_id = slot.method()->mask_id();
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0 || positions[i] >= length) {
      fail(Code::invalid_argument, "position {} is not on the canvas of slot {}, expected 0 to {}",
           positions[i], slot.number(), length - 1);
    }
    if (tokens[i] < 0 || tokens[i] >= vocab || tokens[i] == mask_id) {
      fail(Code::invalid_argument,
           "token {} at position {} cannot be decided, expected 0 to {} without the mask token {}",
           tokens[i], positions[i], vocab - 1, mask_id);
    }
  }
  if (!slot.is_predicted()) fail_unpredicted(slot.number());
  for (const int64_t position : positions) {
    if (prediction_at(slot, position) == nullptr) {
      fail_with_hint("statistics lists the positions", Code::invalid_argument,
                     "position {} of slot {} was not predicted in this step", position,
                     slot.number());
    }
  }
  ConstrainedStep::check_tokens(slot, positions, tokens);
}

} // namespace

void check_predictable(const std::vector<Slot*>& active) {
  if (active.empty()) {
    fail_with_hint("add a request, or read the ids of the finished ones", Code::failed_precondition,
                   "no slot has open positions");
  }
  for (const Slot* slot : active) {
    if (slot->method()->arrays() == nullptr) continue;
    fail_with_hint("call step or run", Code::unimplemented,
                   "slot {} decodes an array, so the host cannot decide its tokens",
                   slot->number());
  }
}

Batch statistics_of(const RequestCopy& request) {
  if (request.predictions == nullptr) fail_unpredicted(request.number);
  const std::vector<Prediction>& all = *request.predictions;
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

void commit_tokens(Slot& slot, std::span<const int64_t> positions, std::span<const int32_t> tokens,
                   int64_t vocab) {
  check_commit(slot, positions, tokens, vocab);
  Trial trial = slot.copy();
  std::vector<int64_t> decided;
  for (size_t i = 0; i < positions.size(); ++i) {
    const Prediction& p = *prediction_at(slot, positions[i]);
    const bool likeliest = p.argmax == tokens[i];
    if (trial.request.is_open(positions[i])) decided.push_back(positions[i]);
    trial.request.decide(positions[i], tokens[i], likeliest ? p.max_probability : p.probability);
  }
  trial.outcome = trial.session->host_decided(trial.request, decided);
  slot.accept(std::move(trial));
}

} // namespace dllm::decode
