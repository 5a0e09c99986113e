#include "cpu/run_gate.h"

#include <chrono>

namespace dllm::cpu {

RunGate::Pass RunGate::enter(int64_t bytes, bool waits, const Task* task) {
  std::unique_lock lock(mutex_);
  const auto fits = [&] {
    const int64_t limit = ledger_->limit();
    return limit == 0 || running_ == 0 ||
           ledger_->used() - arenas_.idle_bytes() + expected_ + bytes <= limit;
  };
  while (waits && !fits()) {
    check_task(task);
    // The system clock: ThreadSanitizer does not follow waits on the steady one.
    changed_.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(10));
  }
  ++running_;
  expected_ += bytes;
  return {*this, bytes};
}

void RunGate::forget(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  expected_ -= bytes;
}

void RunGate::count(int64_t change) {
  {
    const std::lock_guard lock(mutex_);
    running_ += change;
  }
  changed_.notify_all();
}

void RunGate::leave(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    expected_ -= bytes;
    --running_;
  }
  changed_.notify_all();
}

} // namespace dllm::cpu
