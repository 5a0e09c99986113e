#include "handles.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>

using namespace dllm;
using namespace dllm::abi;

namespace {

// Returns the decoder for a call that changes it.
decode::Decoder& own_decoder(dllm_decoder* decoder) {
  dllm_decoder& own = need_own(decoder, "decoder");
  if (own.is_read_only) {
    fail_with_hint("call dllm_generator_step or dllm_generator_run of its generator",
                   Code::failed_precondition, "the decoder belongs to a generator");
  }
  return *own.object;
}

} // namespace

dllm_status dllm_decoder_new(dllm_model* model, const dllm_options* opts, dllm_decoder** out,
                             dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const auto& on = need(model, "model").object;
    *out = new dllm_decoder(on, options_of(opts, "decoder"));
  });
}

void dllm_decoder_release(dllm_decoder* decoder) {
  release(decoder);
}

dllm_status dllm_decoder_start(dllm_decoder* decoder, const int32_t* prompt, int64_t count,
                               int64_t seed, dllm_error* err) {
  return guard(err, [&] {
    decode::Decoder& object = own_decoder(decoder);
    object.start(need_array(prompt, count, "prompt"), static_cast<uint64_t>(seed));
  });
}

dllm_status dllm_decoder_add(dllm_decoder* decoder, const int32_t* canvas, const uint8_t* fixed,
                             int64_t count, const dllm_options* opts, int64_t* out_slot,
                             dllm_error* err) {
  return guard(err, [&] {
    decode::Decoder& object = own_decoder(decoder);
    const auto ids = need_array(canvas, count, "canvas");
    const auto given =
        fixed == nullptr ? std::span<const uint8_t>() : need_array(fixed, count, "fixed");
    const int64_t slot = object.add(ids, given, options_of(opts, "slot"));
    if (out_slot != nullptr) *out_slot = slot;
  });
}

dllm_status dllm_decoder_remove(dllm_decoder* decoder, int64_t slot, dllm_error* err) {
  return guard(err, [&] { own_decoder(decoder).remove(slot); });
}

dllm_status dllm_decoder_step(dllm_decoder* decoder, dllm_task* task, int64_t* out_active,
                              dllm_error* err) {
  return guard(err, [&] {
    const int64_t active = own_decoder(decoder).step(task_of(task));
    if (out_active != nullptr) *out_active = active;
  });
}

dllm_status dllm_decoder_step_for(dllm_decoder* decoder, double budget_ms, dllm_event_fn fn,
                                  void* user_data, dllm_task* task, int64_t* out_active,
                                  dllm_error* err) {
  return guard(err, [&] {
    decode::Decoder& object = own_decoder(decoder);
    if (!(budget_ms >= 0) || !std::isfinite(budget_ms))
      fail(Code::invalid_argument, "budget_ms is {}, expected a finite number of 0 or more",
           budget_ms);
    // In milliseconds. A longer budget is cut to a day, so the sum of two times does not overflow.
    constexpr double kDay = 24 * 3600 * 1e3;
    const std::chrono::duration<double, std::milli> budget(std::min(budget_ms, kDay));
    const int64_t active =
        object.step_for(std::chrono::duration_cast<std::chrono::nanoseconds>(budget),
                        event_fn(fn, user_data), task_of(task));
    if (out_active != nullptr) *out_active = active;
  });
}

dllm_status dllm_decoder_run(dllm_decoder* decoder, dllm_event_fn fn, void* user_data,
                             dllm_task* task, dllm_error* err) {
  return guard(err, [&] { own_decoder(decoder).run(event_fn(fn, user_data), task_of(task)); });
}

dllm_status dllm_decoder_ids(const dllm_decoder* decoder, int64_t slot, int32_t* dst,
                             int64_t dst_count, int64_t* out_count, dllm_error* err) {
  return guard(err, [&] {
    const decode::RequestCopyRef held = need(decoder, "decoder").object->copy(slot);
    copy_out(std::span<const int32_t>(held->ids), dst, dst_count, out_count, "dst");
  });
}

dllm_status dllm_decoder_states(const dllm_decoder* decoder, int64_t slot, uint8_t* dst,
                                int64_t dst_count, int64_t* out_count, dllm_error* err) {
  return guard(err, [&] {
    const decode::RequestCopyRef held = need(decoder, "decoder").object->copy(slot);
    std::vector<uint8_t> states;
    for (decode::State state : held->states) states.push_back(static_cast<uint8_t>(state));
    copy_out(std::span<const uint8_t>(states), dst, dst_count, out_count, "dst");
  });
}

dllm_status dllm_decoder_confidence(const dllm_decoder* decoder, int64_t slot, float* dst,
                                    int64_t dst_count, int64_t* out_count, dllm_error* err) {
  return guard(err, [&] {
    const decode::RequestCopyRef held = need(decoder, "decoder").object->copy(slot);
    copy_out(std::span<const float>(held->confidence), dst, dst_count, out_count, "dst");
  });
}

dllm_status dllm_decoder_metric(const dllm_decoder* decoder, int64_t slot, const char* key,
                                double* out, dllm_error* err) {
  return guard(err, [&] {
    const double value = need(decoder, "decoder").object->metric(slot, need_text(key, "key"));
    need_out(out, "out") = value;
  });
}

dllm_status dllm_decoder_trace(const dllm_decoder* decoder, int64_t slot, dllm_buffer* out,
                               dllm_error* err) {
  return guard(err, [&] { fill(out, need(decoder, "decoder").object->trace(slot)); });
}

dllm_status dllm_decoder_describe(const dllm_decoder* decoder, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill_json(out, need(decoder, "decoder").object->describe()); });
}

dllm_status dllmx_decoder_predict(dllm_decoder* decoder, dllm_task* task, dllm_error* err) {
  return guard(err, [&] { own_decoder(decoder).predict(task_of(task)); });
}

dllm_status dllmx_decoder_statistics(const dllm_decoder* decoder, int64_t slot, dllm_batch** out,
                                     dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_batch(need(decoder, "decoder").object->statistics(slot));
  });
}

dllm_status dllmx_decoder_commit(dllm_decoder* decoder, int64_t slot, const int64_t* positions,
                                 const int32_t* ids, int64_t count, dllm_error* err) {
  return guard(err, [&] {
    decode::Decoder& object = own_decoder(decoder);
    object.commit(slot, need_array(positions, count, "positions"), need_array(ids, count, "ids"));
  });
}
