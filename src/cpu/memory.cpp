// Implements Block and MemoryLedger (memory.h).

#include "cpu/memory.h"

#include "base/error.h"
#include "base/number.h"

#include <algorithm>
#include <cstdlib>

#include <sys/mman.h>

namespace dllm::cpu {

namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
// Pages of smaller blocks stay in the heap of malloc, which shares them with other blocks.
constexpr int64_t kLarge = 2 * kHugePage;

// Allocates a block. A large block consists of huge pages where the system has them. Then products
// that read a matrix by columns touch fewer pages, and the system clears 2 MB at each first touch.
std::byte* allocate_pages(int64_t bytes) {
  const bool large = bytes >= kLarge;
  const int64_t alignment = large ? kHugePage : kAlignment;
  const int64_t size = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(static_cast<size_t>(alignment), static_cast<size_t>(size));
#ifdef MADV_HUGEPAGE
  if (large && memory != nullptr) madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
#endif
  return static_cast<std::byte*>(memory);
}

} // namespace

std::byte* MemoryLedger::from_system(int64_t bytes) const {
  const int64_t size = align_up(bytes) + kAlignment;
  if (host_ != nullptr) return static_cast<std::byte*>(host_->allocate(size, kAlignment));
  return allocate_pages(size);
}

void MemoryLedger::to_system(Piece piece) const {
  if (host_ == nullptr)
    std::free(piece.data);
  else if (piece.data != nullptr)
    host_->free(piece.data, align_up(piece.bytes) + kAlignment);
}

void MemoryLedger::count_locked(int64_t bytes) {
  used_ += bytes;
  peak_ = std::max(peak(), used());
}

// Moves kept pieces to `to`, the oldest first, until at most `most` bytes are kept.
void MemoryLedger::drop_locked(int64_t most, Dropped& to) {
  while (!kept_.empty() && kept() > most) {
    kept_bytes_ -= kept_.front().bytes;
    to.pieces[to.count++] = kept_.front();
    kept_.erase(kept_.begin());
  }
}

// Drops kept pieces until the rule of MemoryLedger holds. `coming` is the number of bytes that will
// be used next.
void MemoryLedger::keep_to_bound_locked(int64_t coming, Dropped& to) {
  const int64_t needed = used() + coming;
  const int64_t reached = std::max(peak(), needed);
  drop_locked((limit() == 0 ? reached : std::min(reached, limit())) - needed, to);
}

// Returns the smallest kept piece that is large enough and at most an eighth too large, or an empty
// piece.
MemoryLedger::Piece MemoryLedger::take_kept_locked(int64_t bytes) {
  auto best = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->bytes >= bytes && it->bytes - bytes <= bytes / 8 && fits(it->bytes) &&
        (best == kept_.end() || it->bytes < best->bytes))
      best = it;
  }
  if (best == kept_.end()) return {};
  const Piece found = *best;
  kept_.erase(best);
  kept_bytes_ -= found.bytes;
  return found;
}

MemoryLedger::Piece MemoryLedger::allocate(int64_t bytes, BlockUse use) {
  Piece piece;
  {
    Dropped dropped(*this);
    const std::lock_guard lock(mutex_);
    if (use == BlockUse::run) piece = take_kept_locked(bytes);
    if (piece.data == nullptr) keep_to_bound_locked(bytes, dropped);
    count_locked(piece.data == nullptr ? bytes : piece.bytes);
  }
  if (piece.data != nullptr) return piece;
  piece = {from_system(bytes), bytes};
  if (piece.data == nullptr && drop_kept()) piece.data = from_system(bytes);
  if (piece.data == nullptr) remove(bytes);
  return piece;
}

void MemoryLedger::free(Piece piece, BlockUse use) {
  const bool keep = use == BlockUse::run && piece.bytes >= kLarge;
  if (!keep) to_system(piece);
  Dropped dropped(*this);
  const std::lock_guard lock(mutex_);
  used_ -= piece.bytes;
  if (!keep) return;
  kept_.push_back(piece);
  kept_bytes_ += piece.bytes;
  if (closed_) return drop_locked(0, dropped);
  if (kept_.size() > kMostKept) drop_locked(kept() - 1, dropped);
  keep_to_bound_locked(0, dropped);
}

void MemoryLedger::add(int64_t bytes) {
  Dropped dropped(*this);
  const std::lock_guard lock(mutex_);
  keep_to_bound_locked(bytes, dropped);
  count_locked(bytes);
}

void MemoryLedger::remove(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  used_ -= bytes;
}

void MemoryLedger::set_limit(int64_t bytes) {
  Dropped dropped(*this);
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
  keep_to_bound_locked(0, dropped);
}

bool MemoryLedger::drop_kept() {
  Dropped dropped(*this);
  const std::lock_guard lock(mutex_);
  drop_locked(0, dropped);
  return dropped.count > 0;
}

void MemoryLedger::close() {
  Dropped dropped(*this);
  const std::lock_guard lock(mutex_);
  closed_ = true;
  drop_locked(0, dropped);
}

Block::Block(std::shared_ptr<MemoryLedger> ledger, int64_t bytes, const char* what, BlockUse use)
    : ledger_(std::move(ledger)), charge_(bytes), bytes_(bytes), use_(use) {
  if (!ledger_->fits(bytes)) {
    fail_with_hint("raise the engine's memory_limit, or use a smaller batch",
                   Code::resource_exhausted, "{} needs {}, {} of the limit of {} are in use", what,
                   memory_text(static_cast<double>(bytes)),
                   memory_text(static_cast<double>(ledger_->used())),
                   memory_text(static_cast<double>(ledger_->limit())));
  }
  piece_ = ledger_->allocate(bytes, use);
  if (piece_.data == nullptr) {
    fail_with_hint("use a smaller batch or model", Code::resource_exhausted,
                   "{} needs {}, which the machine refused", what,
                   memory_text(static_cast<double>(bytes)));
  }
}

Block::Block(std::shared_ptr<const Block> whole, int64_t offset, int64_t bytes)
    : whole_(std::move(whole)), piece_{whole_->data() + offset, bytes}, bytes_(bytes),
      use_(BlockUse::run) {}

Block::~Block() {
  if (ledger_ != nullptr) ledger_->free(piece_, use_);
}

} // namespace dllm::cpu
