#pragma once
// Cancels a long call, limits its time, reports its progress, and pauses it between two operations.

#include "base/threads/meter.h"

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace dllm {

// Pauses a call at a point between two operations where it holds no lock.
class PausePoint {
public:
  virtual ~PausePoint() = default;
  virtual bool is_due() const noexcept = 0;
  virtual void pause() = 0; // returns when the call is resumed; check the task then
};

// Cancel flag, deadline and progress of one call. Any thread may use any member; a signal handler
// may call cancel().
class Task {
public:
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  bool is_cancelled() const noexcept {
    const Task* outer = outer_.load(std::memory_order_acquire);
    return cancelled_.load(std::memory_order_relaxed) ||
           (outer != nullptr && outer->is_cancelled());
  }
  // Sets the deadline `milliseconds` from now. With 0 the task is late at once; a negative number
  // removes the deadline.
  void set_deadline(int64_t milliseconds) noexcept;
  bool is_late() const noexcept;

  void set_progress(int64_t done, int64_t total) noexcept {
    done_.store(done, std::memory_order_relaxed);
    total_.store(total, std::memory_order_relaxed);
  }
  int64_t done() const noexcept { return done_.load(std::memory_order_relaxed); }
  int64_t total() const noexcept { return total_.load(std::memory_order_relaxed); }

  // Sets a task whose cancel also cancels this one; null removes it. `outer` must live until
  // another task is set.
  void set_outer(const Task* outer) noexcept { outer_.store(outer, std::memory_order_release); }
  // Sets the pause point before the call starts. With null the call never pauses.
  void set_pause_point(PausePoint* point) noexcept { pause_point_ = point; }
  PausePoint* pause_point() const noexcept { return pause_point_; }

  // A hook for tests, which cannot time a cancel. The task cancels itself at the n-th check from
  // now (n >= 1) and counts the checks before and after it.
  void cancel_at_check(int64_t n) noexcept { checks_left_.store(n, std::memory_order_relaxed); }
  int64_t checks_left() const noexcept { return checks_left_.load(std::memory_order_relaxed); }

private:
  friend bool should_stop(const Task* task) noexcept;
  static constexpr int64_t kNotCounted = INT64_MIN;
  void count_check() const noexcept;

  mutable std::atomic<bool> cancelled_{false};
  std::atomic<int64_t> deadline_ns_{0}; // steady clock; 0: none
  std::atomic<int64_t> done_{0};
  std::atomic<int64_t> total_{0};
  mutable std::atomic<int64_t> checks_left_{kNotCounted};
  std::atomic<const Task*> outer_{nullptr};
  PausePoint* pause_point_ = nullptr;
};

// Checks the task and returns true if work should stop. `task` may be null. A check costs a few
// loads and, with a deadline, a clock read (25 ns).
bool should_stop(const Task* task) noexcept;
// Checks the task and throws Code::cancelled or Code::deadline_exceeded if work should stop.
void check_task(const Task* task);

// Calls f(begin, end) for consecutive pieces of [0, count), each of at most `piece` items, and
// checks the task before each piece. A piece should take a few milliseconds at most.
template <class F> void in_pieces(int64_t count, int64_t piece, const Task* task, F&& f) {
  for (int64_t begin = 0; begin < count; begin += piece) {
    check_task(task);
    f(begin, std::min(count, begin + piece));
  }
}

// Copies as memcpy does, and checks the task between pieces.
void copy_in_pieces(void* to, const void* from, int64_t bytes, const Task* task);

// Waits for the lock and checks the task every 10 ms.
std::unique_lock<std::timed_mutex> lock_with_task(std::timed_mutex& mutex, const Task* task);

// A call that runs in slices: it pauses between two operations and is resumed later. The call has
// its own thread, whose stack holds its state. The caller waits while that thread runs, so only one
// of the two runs at any moment. One call at a time; one thread at a time calls the members.
class SlicedCall final : private PausePoint {
public:
  using Clock = std::chrono::steady_clock;
  using Work = std::function<void(const Task*)>;

  SlicedCall() = default;
  ~SlicedCall() override; // drops a paused call
  SlicedCall(const SlicedCall&) = delete;
  SlicedCall& operator=(const SlicedCall&) = delete;

  // Runs work(task) until it ends, or until its first pause point at or after `until`. Returns true
  // if the work ended. Rethrows an exception of the work. Cancelling `outer`, which may be null,
  // cancels this slice too.
  bool start(Work work, Clock::time_point until, const Task* outer);
  // Resumes a paused call, as start() does. The call runs at least the operation after its pause
  // point.
  bool resume(Clock::time_point until, const Task* outer);
  // Cancels a paused call, waits for its end and discards its exception. Does nothing without a
  // paused call.
  void drop() noexcept;
  // Returns true if a call is paused. In a forked child the call is given up, because the parent's
  // thread does not exist there.
  bool is_paused();

private:
  enum Turn : int { kCaller, kThread, kOver };
  bool is_due() const noexcept override { return Clock::now() >= until_; }
  void pause() override;
  bool hand_over(Clock::time_point until, const Task* outer);
  void serve();
  void give_up_after_fork();

  std::atomic<int> turn_{kCaller}; // the thread that may use the members below
  Work work_;
  std::optional<Task> task_;
  Clock::time_point until_;
  MeterRef meter_;                    // meter of the caller of this slice
  std::optional<MeterScope> metered_; // sets that meter on the call's thread
  std::exception_ptr thrown_;
  bool in_progress_ = false;
  std::thread thread_;
  pid_t owner_ = 0;
};

} // namespace dllm
