#include "base/task.h"

#include "base/error.h"

namespace dllm {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void Task::set_deadline(int64_t milliseconds) noexcept {
  // A wait longer than a century is no deadline; also keeps the sum from overflowing.
  constexpr int64_t kCentury = int64_t{100} * 365 * 24 * 3600 * 1000;
  const bool none = milliseconds < 0 || milliseconds > kCentury;
  deadline_ns_.store(none ? 0 : now_ns() + milliseconds * 1000000, std::memory_order_relaxed);
}

bool Task::is_late() const noexcept {
  const int64_t deadline = deadline_ns_.load(std::memory_order_relaxed);
  return deadline != 0 && now_ns() >= deadline;
}

bool should_stop(const Task* task) noexcept {
  return task != nullptr && (task->is_cancelled() || task->is_late());
}

void check_task(const Task* task) {
  if (task == nullptr) return;
  if (task->is_cancelled()) fail(Code::cancelled, "the task was cancelled");
  if (task->is_late()) fail(Code::deadline_exceeded, "the task's deadline has passed");
}

}  // namespace dllm
