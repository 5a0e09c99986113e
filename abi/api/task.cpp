#include "task_handle.h"

using namespace dllm::abi;

dllm_task* dllm_task_new(void) {
  return guard_value<dllm_task*>(nullptr, [] { return new dllm_task; });
}

void dllm_task_release(dllm_task* task) {
  if (usable(task)) delete task;
}

// May run inside a signal handler: only the stamp is looked at, no lock is taken.
void dllm_task_cancel(dllm_task* task) {
  if (task != nullptr && task->stamp == static_cast<uint32_t>(Kind::task)) task->object.cancel();
}

int32_t dllm_task_is_cancelled(const dllm_task* task) {
  return usable(task) && dllm::should_stop(&task->object) ? 1 : 0;
}

void dllm_task_set_deadline(dllm_task* task, int64_t milliseconds) {
  if (usable(task)) task->object.set_deadline(milliseconds);
}

void dllm_task_progress(const dllm_task* task, int64_t* out_done, int64_t* out_total) {
  const bool living = usable(task);
  if (out_done != nullptr) *out_done = living ? task->object.done() : 0;
  if (out_total != nullptr) *out_total = living ? task->object.total() : 0;
}
