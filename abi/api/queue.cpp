#include "generation.h"

#include <nlohmann/json.hpp>

#include <chrono>

using namespace dllm;
using namespace dllm::abi;

namespace {

// A century; a longer wait would overflow the clock.
constexpr int64_t kMostMilliseconds = int64_t{100} * 365 * 24 * 3600 * 1000;

} // namespace

dllm_status dllm_queue_load(const char* path, dllm_engine* engine, const dllm_options* model_opts,
                            const dllm_options* opts, dllm_task* task, dllm_queue** out,
                            dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    const Options own = options_of(opts, "queue");
    auto [model, tokenizer] = load_with_tokenizer(path, engine, model_opts, task);
    *out = new dllm_queue(std::move(model), std::move(tokenizer), own);
  });
}

dllm_status dllm_queue_new(dllm_model* model, const dllm_tokenizer* tok, const dllm_options* opts,
                           dllm_queue** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_queue(need(model, "model").object, need(tok, "tok").object,
                          options_of(opts, "queue"));
  });
}

void dllm_queue_release(dllm_queue* queue) {
  release(queue);
}

dllm_status dllm_queue_submit(dllm_queue* queue, const dllm_options* request,
                              const dllm_options* opts, dllm_task* task, int64_t* out_number,
                              dllm_error* err) {
  return guard(err, [&] {
    generate::Queue& object = need(queue, "queue").object;
    need_out(out_number, "out_number");
    *out_number = object.submit(options_of(request, "request"), options_of(opts, "submission"),
                                task_of(task));
  });
}

dllm_status dllm_queue_wait(const dllm_queue* queue, int64_t number, int64_t timeout_ms,
                            dllm_task* task, int64_t* out_version, int64_t* out_over,
                            dllm_error* err) {
  return guard(err, [&] {
    const generate::Queue& object = need(queue, "queue").object;
    need_out(out_version, "out_version");
    if (timeout_ms < 0) fail(Code::invalid_argument, "timeout_ms is {}", timeout_ms);
    const std::chrono::milliseconds most(std::min(timeout_ms, kMostMilliseconds));
    const auto [version, is_over] = object.wait(number, *out_version, most, task_of(task));
    *out_version = version;
    if (out_over != nullptr) *out_over = is_over ? 1 : 0;
  });
}

dllm_status dllm_queue_text(dllm_queue* queue, int64_t number, const char* part, dllm_buffer* out,
                            dllm_error* err) {
  return guard(err, [&] {
    generate::Queue& object = need(queue, "queue").object;
    const generate::TextPart wanted = text_part(part);
    need(out, "out"); // a text that is returned once must not be lost
    fill(out, object.text(number, wanted));
  });
}

dllm_status dllm_queue_describe(dllm_queue* queue, int64_t number, dllm_buffer* out,
                                dllm_error* err) {
  return guard(err, [&] {
    generate::Queue& object = need(queue, "queue").object;
    fill_json(out, number == -1 ? object.describe() : object.describe(number));
  });
}

dllm_status dllm_queue_cancel(dllm_queue* queue, int64_t number, dllm_error* err) {
  return guard(err, [&] { need(queue, "queue").object.cancel(number); });
}

dllm_status dllm_queue_remove(dllm_queue* queue, int64_t number, dllm_error* err) {
  return guard(err, [&] { need(queue, "queue").object.remove(number); });
}

dllm_status dllm_queue_drain(dllm_queue* queue, dllm_task* task, dllm_error* err) {
  return guard(err, [&] { need(queue, "queue").object.drain(task_of(task)); });
}

dllm_status dllm_queue_model(const dllm_queue* queue, dllm_model** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_model(need(queue, "queue").object.model());
  });
}

dllm_status dllm_queue_tokenizer(const dllm_queue* queue, dllm_tokenizer** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_tokenizer(need(queue, "queue").object.tokenizer());
  });
}
