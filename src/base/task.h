#pragma once
// Cancel flag, deadline and progress of one long call. Every member may be used from any thread; cancel() also
// from a signal handler.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace dllm {

// Where a call may be left for a while (base/sliced_call.h): between two operations, when no lock is held.
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

} // namespace dllm
