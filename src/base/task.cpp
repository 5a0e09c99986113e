#include "base/task.h"

#include "base/error.h"
#include "base/threads/forked_thread.h"

#include <unistd.h>

#include <cstring>
#include <utility>

namespace dllm {

namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace

void Task::set_deadline(int64_t milliseconds) noexcept {
  // A wait of more than a century counts as no deadline, so that the sum below does not overflow.
  constexpr int64_t kCentury = int64_t{100} * 365 * 24 * 3600 * 1000;
  const bool none = milliseconds < 0 || milliseconds > kCentury;
  deadline_ns_.store(none ? 0 : now_ns() + milliseconds * 1000000, std::memory_order_relaxed);
}

bool Task::is_late() const noexcept {
  const int64_t deadline = deadline_ns_.load(std::memory_order_relaxed);
  return deadline != 0 && now_ns() >= deadline;
}

void Task::count_check() const noexcept {
  if (checks_left_.fetch_sub(1, std::memory_order_relaxed) == 1)
    cancelled_.store(true, std::memory_order_relaxed);
}

bool should_stop(const Task* task) noexcept {
  if (task == nullptr) return false;
  if (task->checks_left() != Task::kNotCounted) task->count_check();
  return task->is_cancelled() || task->is_late() ||
         should_stop(task->outer_.load(std::memory_order_acquire));
}

void check_task(const Task* task) {
  if (!should_stop(task)) return;
  if (task->is_cancelled()) fail(Code::cancelled, "the task was cancelled");
  fail(Code::deadline_exceeded, "the task's deadline has passed");
}

void copy_in_pieces(void* to, const void* from, int64_t bytes, const Task* task) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  in_pieces(bytes, kPiece, task, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<size_t>(end - begin));
  });
}

std::unique_lock<std::timed_mutex> lock_with_task(std::timed_mutex& mutex, const Task* task) {
  // Uses the system clock, because ThreadSanitizer does not follow waits on the steady clock.
  const auto soon = [] { return std::chrono::system_clock::now() + std::chrono::milliseconds(10); };
  std::unique_lock lock(mutex, std::try_to_lock);
  while (!lock.owns_lock() && !lock.try_lock_until(soon())) check_task(task);
  return lock;
}

SlicedCall::~SlicedCall() {
  drop();
  give_up_after_fork();
  if (!thread_.joinable()) return;
  turn_.store(kOver, std::memory_order_release);
  turn_.notify_all();
  thread_.join();
}

void SlicedCall::give_up_after_fork() {
  if (owner_ == getpid() || !thread_.joinable()) return;
  forget_thread(thread_);
  in_progress_ = false;
  turn_.store(kCaller, std::memory_order_relaxed);
}

bool SlicedCall::is_paused() {
  give_up_after_fork();
  return in_progress_;
}

bool SlicedCall::start(Work work, Clock::time_point until, const Task* outer) {
  give_up_after_fork();
  work_ = std::move(work);
  task_.emplace();
  task_->set_pause_point(this);
  thrown_ = nullptr;
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { serve(); });
    owner_ = getpid();
  }
  in_progress_ = true;
  return hand_over(until, outer);
}

bool SlicedCall::resume(Clock::time_point until, const Task* outer) {
  return hand_over(until, outer);
}

void SlicedCall::drop() noexcept {
  if (!is_paused()) return;
  task_->cancel();
  try {
    while (!hand_over(Clock::time_point::max(), nullptr)) {
    }
  } catch (...) { // the call was cancelled
  }
}

// Runs the call's thread until it pauses or ends. The caller's thread calls it.
bool SlicedCall::hand_over(Clock::time_point until, const Task* outer) {
  until_ = until;
  task_->set_outer(outer);
  meter_ = current_meter();
  turn_.store(kThread, std::memory_order_release);
  turn_.notify_all();
  while (turn_.load(std::memory_order_acquire) != kCaller)
    turn_.wait(kThread, std::memory_order_acquire);
  task_->set_outer(nullptr);
  meter_.reset();
  if (in_progress_) return false;
  work_ = nullptr;
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
  return true;
}

// Lets the caller run and waits until the call is resumed. The call's thread calls it.
void SlicedCall::pause() {
  metered_.reset();
  turn_.store(kCaller, std::memory_order_release);
  turn_.notify_all();
  while (turn_.load(std::memory_order_acquire) != kThread)
    turn_.wait(kCaller, std::memory_order_acquire);
  metered_.emplace(meter_);
}

void SlicedCall::serve() {
  for (;;) {
    int turn = kCaller;
    while ((turn = turn_.load(std::memory_order_acquire)) == kCaller)
      turn_.wait(kCaller, std::memory_order_acquire);
    if (turn == kOver) return;
    metered_.emplace(meter_);
    try {
      work_(&*task_);
    } catch (...) {
      thrown_ = std::current_exception();
    }
    metered_.reset();
    in_progress_ = false;
    turn_.store(kCaller, std::memory_order_release);
    turn_.notify_all();
  }
}

} // namespace dllm
