#include "task_handle.h"

using namespace dllm::abi;

dllm_task* dllm_task_new(void) {
  return guard_value<dllm_task*>(nullptr, [] { return new dllm_task; });
}

void dllm_task_release(dllm_task* task) {
  release(task);
}

// May run inside a signal handler: no lock is taken.
void dllm_task_cancel(dllm_task* task) {
  if (task == nullptr || !enter_by_stamp(task, Kind::task)) return;
  task->object.cancel();
  if (leave(task)) delete task;  // only where it was released during these three lines
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
