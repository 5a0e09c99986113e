// Implements ArenaStore and RunGate (memory.h).

#include "cpu/memory.h"

#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

namespace dllm::cpu {

std::unique_ptr<Block> ArenaStore::take(int64_t bytes) {
  std::vector<std::unique_ptr<Block>> too_small;
  too_small.reserve(kMostIdle); // idle_ always has this capacity, so that give() never fails
  std::unique_lock lock(mutex_);
  // The smallest idle arena that is large enough. If none is, a new arena replaces all idle ones.
  auto best = idle_.end();
  for (auto it = idle_.begin(); it != idle_.end(); ++it) {
    if ((*it)->bytes() >= bytes && (best == idle_.end() || (*it)->bytes() < (*best)->bytes()))
      best = it;
  }
  if (best != idle_.end()) {
    std::unique_ptr<Block> found = std::move(*best);
    idle_.erase(best);
    return found;
  }
  too_small.swap(idle_);
  lock.unlock();
  too_small.clear();
  return std::make_unique<Block>(ledger_, bytes, "the arena of a program");
}

void ArenaStore::give(std::unique_ptr<Block> arena) noexcept {
  const size_t most = ledger_->limit() == 0 ? kMostIdle : 1;
  const std::lock_guard lock(mutex_);
  if (idle_.size() < most) {
    idle_.push_back(std::move(arena));
  } else if (arena->bytes() > idle_.front()->bytes()) {
    idle_.front().swap(arena); // the argument frees the smaller arena after the lock is released
  }
}

int64_t ArenaStore::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& arena : idle_) bytes += arena->bytes();
  return bytes;
}

void ArenaStore::trim() {
  std::vector<std::unique_ptr<Block>> dropped;
  dropped.reserve(kMostIdle);
  const std::lock_guard lock(mutex_);
  dropped.swap(idle_);
}

RunGate::Pass RunGate::enter(int64_t bytes, bool waits, const Task* task) {
  std::unique_lock lock(mutex_);
  const auto fits = [&] {
    const int64_t limit = ledger_->limit();
    return limit == 0 || running_ == 0 ||
           ledger_->used() - arenas_.idle_bytes() + expected_ + bytes <= limit;
  };
  while (waits && !fits()) {
    check_task(task);
    // Uses the system clock because ThreadSanitizer does not follow waits on the steady clock.
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
