// Implements dllm/event.h and dllm/task.h.

#include "handles.h"

#include "base/named_table.h"

#include <nlohmann/json.hpp>

using namespace dllm;
using namespace dllm::abi;

namespace {

const Event::Value& need_value(const dllm_event* event, const char* key) {
  const Event& object = need(event, "event").object;
  if (const Event::Value* value = object.find(need_text(key, "key"))) return *value;
  fail_unnamed({"key", "in the event"}, key, object.keys());
}

template <class T> const T* find_value(const dllm_event* event, const char* key) noexcept {
  const Held held(event);
  if (!held || key == nullptr) return nullptr;
  const Event::Value* value = event->object.find(key);
  return value == nullptr ? nullptr : std::get_if<T>(value);
}

template <class T>
const T* find_array(const dllm_event* event, const char* key, int64_t* out_count) noexcept {
  static const T kNothing{};
  const auto* array = find_value<std::vector<T>>(event, key);
  if (array == nullptr) return nullptr;
  if (out_count != nullptr) *out_count = static_cast<int64_t>(array->size());
  return array->empty() ? &kNothing : array->data();
}

} // namespace

int32_t dllm_event_kind(const dllm_event* event) {
  const Held held(event);
  return held ? static_cast<int32_t>(held->object.kind()) : 0;
}

dllm_status dllm_event_i64(const dllm_event* event, const char* key, int64_t* out,
                           dllm_error* err) {
  return guard(err, [&] {
    const Event::Value& value = need_value(event, key);
    const int64_t* number = std::get_if<int64_t>(&value);
    if (number == nullptr) fail(Code::invalid_argument, "{} is not a whole number", key);
    need_out(out, "out") = *number;
  });
}

dllm_status dllm_event_f64(const dllm_event* event, const char* key, double* out, dllm_error* err) {
  return guard(err, [&] {
    const Event::Value& value = need_value(event, key);
    const int64_t* whole = std::get_if<int64_t>(&value);
    const double* real = std::get_if<double>(&value);
    if (whole == nullptr && real == nullptr)
      fail(Code::invalid_argument, "{} is not a number", key);
    need_out(out, "out") = real != nullptr ? *real : static_cast<double>(*whole);
  });
}

const char* dllm_event_str(const dllm_event* event, const char* key) {
  const std::string* text = find_value<std::string>(event, key);
  return text == nullptr ? nullptr : text->c_str();
}

const int32_t* dllm_event_i32s(const dllm_event* event, const char* key, int64_t* out_count) {
  return find_array<int32_t>(event, key, out_count);
}

const float* dllm_event_f32s(const dllm_event* event, const char* key, int64_t* out_count) {
  return find_array<float>(event, key, out_count);
}

dllm_status dllm_event_describe(const dllm_event* event, dllm_buffer* out, dllm_error* err) {
  return guard(err, [&] { fill_json(out, need(event, "event").object.to_json()); });
}

dllm_task* dllm_task_new(void) {
  return guard_value<dllm_task*>(nullptr, [] { return new dllm_task; });
}

void dllm_task_release(dllm_task* task) {
  release(task);
}

// This function may run inside a signal handler, so it takes no lock.
void dllm_task_cancel(dllm_task* task) {
  if (task == nullptr || !enter_by_stamp(task, Kind::task)) return;
  task->object.cancel();
  if (leave(task)) delete task; // another thread released the task since enter_by_stamp()
}

int32_t dllm_task_is_cancelled(const dllm_task* task) {
  const Held held(task);
  return held && dllm::should_stop(&held->object) ? 1 : 0;
}

void dllm_task_set_deadline(dllm_task* task, int64_t milliseconds) {
  if (const Held held(task); held) held->object.set_deadline(milliseconds);
}

void dllm_task_progress(const dllm_task* task, int64_t* out_done, int64_t* out_total) {
  const Held held(task);
  if (out_done != nullptr) *out_done = held ? held->object.done() : 0;
  if (out_total != nullptr) *out_total = held ? held->object.total() : 0;
}
