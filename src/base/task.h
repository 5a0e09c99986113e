#pragma once
// One long call: its cancel flag, deadline and progress, and a way to leave it between two operations and go on later.

#include "base/meter.h"

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

// Every member of a task may be used from any thread; cancel() also from a signal handler.

// Where a call may be left for a while (base/task.h): between two operations, when no lock is held.
class PausePoint {
public:
  virtual ~PausePoint() = default;
  virtual bool is_due() const noexcept = 0;
  virtual void pause() = 0; // returns when the call is continued; check the task then
};

class Task {
public:
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  bool is_cancelled() const noexcept {
    const Task* outer = outer_.load(std::memory_order_acquire);
    return cancelled_.load(std::memory_order_relaxed) ||
           (outer != nullptr && outer->is_cancelled());
  }
  // From now on; 0: late at once, a negative number removes the deadline.
  void set_deadline(int64_t milliseconds) noexcept;
  bool is_late() const noexcept;

  void set_progress(int64_t done, int64_t total) noexcept {
    done_.store(done, std::memory_order_relaxed);
    total_.store(total, std::memory_order_relaxed);
  }
  int64_t done() const noexcept { return done_.load(std::memory_order_relaxed); }
  int64_t total() const noexcept { return total_.load(std::memory_order_relaxed); }

  // A task that stops this one too; null: none. It is used until another is set.
  void set_outer(const Task* outer) noexcept { outer_.store(outer, std::memory_order_release); }
  // Null: the call is never left. Set before the call.
  void set_pause_point(PausePoint* point) noexcept { pause_point_ = point; }
  PausePoint* pause_point() const noexcept { return pause_point_; }

  // A seam for tests, which cannot cancel at a moment: the task cancels itself at the n-th check from now on and
  // counts the checks before and after it. n: 1 or more.
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

// A check: true when work should stop. `task` may be null. Costs a few loads, with a deadline also a clock read (25 ns).
bool should_stop(const Task* task) noexcept;
// The same, and throws Code::cancelled or Code::deadline_exceeded when work should stop.
void check_task(const Task* task);

// Runs f(begin, end) over [0, count) in pieces of at most `piece` items, in order, and checks the task before each.
// A piece should take a few milliseconds at most.
template <class F> void in_pieces(int64_t count, int64_t piece, const Task* task, F&& f) {
  for (int64_t begin = 0; begin < count; begin += piece) {
    check_task(task);
    f(begin, std::min(count, begin + piece));
  }
}

// memcpy in pieces.
void copy_in_pieces(void* to, const void* from, int64_t bytes, const Task* task);

// Waits for the lock and checks the task every 10 ms.
std::unique_lock<std::timed_mutex> lock_with_task(std::timed_mutex& mutex, const Task* task);

// A call that is left between two operations and continued later. It runs on a thread of its own, whose stack keeps all
// that the call holds, while the caller waits: at any moment one of the two runs.

// One call at a time. Start, resume and drop come from one thread at a time.
class SlicedCall final : private PausePoint {
public:
  using Clock = std::chrono::steady_clock;
  using Work = std::function<void(const Task*)>;

  SlicedCall() = default;
  ~SlicedCall() override; // drops a call in progress
  SlicedCall(const SlicedCall&) = delete;
  SlicedCall& operator=(const SlicedCall&) = delete;

  // Runs work(task) until it ends, or until the first pause point at `until` or later. True: it ended. Throws what it
  // threw. `outer` cancels it too and is used until this returns; may be null.
  bool start(Work work, Clock::time_point until, const Task* outer);
  // Goes on with a paused call, by at least the operation behind the pause point.
  bool resume(Clock::time_point until, const Task* outer);
  // Cancels a paused call and waits for its end; its exception is lost. Without one: nothing.
  void drop() noexcept;
  // False in a forked child: the thread of the parent does not exist there, its call is given up.
  bool is_paused();

private:
  enum Turn : int { kCaller, kThread, kOver };
  bool is_due() const noexcept override { return Clock::now() >= until_; }
  void pause() override;
  bool hand_over(Clock::time_point until, const Task* outer);
  void serve();
  void give_up_after_fork();

  std::atomic<int> turn_{kCaller}; // passes all members below between the two threads
  Work work_;
  std::optional<Task> task_;
  Clock::time_point until_;
  MeterRef meter_;                    // of the caller of this slice
  std::optional<MeterScope> metered_; // the same, on the thread
  std::exception_ptr thrown_;
  bool in_progress_ = false;
  std::thread thread_;
  pid_t owner_ = 0;
};

} // namespace dllm
