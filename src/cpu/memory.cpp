// Blocks, arenas, and runs that wait for memory.

#include "cpu/memory.h"

#include "base/error.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <sys/mman.h>

namespace dllm::cpu {

std::string memory_text(int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 3; ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

// Large blocks begin on a huge page and ask for such pages: products that read a matrix in columns touch a page a
// row, and the kernel clears 2 MB at a time when a block is touched first.
std::byte* allocate_pages(int64_t bytes) {
  const bool large = bytes >= 2 * kHugePage;
  const int64_t alignment = large ? kHugePage : kAlignment;
  const int64_t size = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size));
#ifdef MADV_HUGEPAGE
  if (large && memory != nullptr) madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
#endif
  return static_cast<std::byte*>(memory);
}

} // namespace

std::byte* MemoryLedger::allocate(int64_t bytes) const {
  if (host_ != nullptr) return static_cast<std::byte*>(host_->allocate(bytes, kAlignment));
  return allocate_pages(bytes);
}

void MemoryLedger::free(std::byte* memory, int64_t bytes) const {
  if (host_ == nullptr)
    std::free(memory);
  else if (memory != nullptr)
    host_->free(memory, bytes);
}

void MemoryLedger::add(int64_t bytes) {
  const int64_t now = used_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t seen = peak_.load(std::memory_order_relaxed);
  while (now > seen && !peak_.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
}

Block::Block(std::shared_ptr<MemoryLedger> ledger, int64_t bytes, const char* what)
    : ledger_(std::move(ledger)), charge_(bytes), bytes_(bytes) {
  if (!ledger_->fits(bytes)) {
    fail_with_hint("raise the engine's memory_limit, or use a smaller batch",
                   Code::resource_exhausted, "{} needs {}, {} of the limit of {} are in use", what,
                   memory_text(bytes), memory_text(ledger_->used()), memory_text(ledger_->limit()));
  }
  data_ = ledger_->allocate(align_up(bytes) + kAlignment);
  if (data_ == nullptr) {
    fail_with_hint("use a smaller batch or model", Code::resource_exhausted,
                   "{} needs {}, which the machine refused", what, memory_text(bytes));
  }
  ledger_->add(bytes_);
}

Block::~Block() {
  ledger_->free(data_, align_up(bytes_) + kAlignment);
  ledger_->remove(bytes_);
}

std::unique_ptr<Block> ArenaStore::take(int64_t bytes) {
  std::unique_lock lock(mutex_);
  // The smallest idle arena that is large enough; a new one replaces those that are too small.
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
  idle_.clear();
  lock.unlock();
  return std::make_unique<Block>(ledger_, bytes, "the arena of a program");
}

void ArenaStore::give(std::unique_ptr<Block> arena) {
  const size_t most = ledger_->limit() == 0 ? 4 : 1;
  const std::lock_guard lock(mutex_);
  if (idle_.size() < most) {
    idle_.push_back(std::move(arena));
  } else if (arena->bytes() > idle_.front()->bytes()) {
    idle_.front() = std::move(arena);
  }
}

int64_t ArenaStore::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& arena : idle_) bytes += arena->bytes();
  return bytes;
}

void ArenaStore::trim() {
  const std::lock_guard lock(mutex_);
  idle_.clear();
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
