#pragma once
// Cancel flag, deadline and progress of one long call. Every member may be used from any thread; cancel() also
// from a signal handler.

#include <atomic>
#include <chrono>
#include <cstdint>

namespace dllm {

class Task {
 public:
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  bool is_cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }
  // From now on; 0: late at once, a negative number removes the deadline.
  void set_deadline(int64_t milliseconds) noexcept;
  bool is_late() const noexcept;

  void set_progress(int64_t done, int64_t total) noexcept {
    done_.store(done, std::memory_order_relaxed);
    total_.store(total, std::memory_order_relaxed);
  }
  int64_t done() const noexcept { return done_.load(std::memory_order_relaxed); }
  int64_t total() const noexcept { return total_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
  std::atomic<int64_t> deadline_ns_{0};  // steady clock; 0: none
  std::atomic<int64_t> done_{0};
  std::atomic<int64_t> total_{0};
};

// True when work should stop. `task` may be null.
bool should_stop(const Task* task) noexcept;
// Throws Code::cancelled or Code::deadline_exceeded when work should stop. `task` may be null.
void check_task(const Task* task);

}  // namespace dllm
