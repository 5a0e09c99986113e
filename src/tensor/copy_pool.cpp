#include "tensor/copy_pool.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

namespace dllm {

namespace {

// Copies with all threads, because one thread cannot use the full memory bandwidth. The thread that
// first writes a new page also waits until the kernel has cleared the page.
void copy_bytes(std::byte* to, const std::byte* from, int64_t bytes, const Workers& workers) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  parallel(workers, (bytes + kPiece - 1) / kPiece, [&](int64_t piece) {
    const int64_t begin = piece * kPiece, size = std::min(kPiece, bytes - begin);
    std::memcpy(to + begin, from + begin, static_cast<size_t>(size));
  });
}

} // namespace

struct CopyPool::Blocks {
  mutable std::mutex mutex;
  std::multimap<int64_t, Tensor> free; // by bytes; guarded by mutex

  // Returns a free block of exactly `bytes`, else a new one.
  Tensor take(int64_t bytes) {
    {
      const std::lock_guard lock(mutex);
      if (auto found = free.extract(bytes); !found.empty()) return std::move(found.mapped());
    }
    return Tensor(DType::u8, {bytes});
  }
  // Puts a block into the list. If the list cannot grow, the block is freed instead, because this
  // runs in a destructor and must not throw.
  void give_back(Tensor block) noexcept {
    try {
      const std::lock_guard lock(mutex);
      const int64_t bytes = block.byte_size();
      free.emplace(bytes, std::move(block));
    } catch (const std::exception&) {
    }
  }
};

CopyPool::CopyPool() : blocks_(std::make_shared<Blocks>()) {}

Tensor CopyPool::copy(const Tensor& from, const Workers& workers) {
  const int64_t bytes = from.byte_size();
  // The last owner returns the block to the pool, if the pool still exists.
  const std::shared_ptr<Tensor> block(new Tensor(blocks_->take(bytes)),
                                      [pool = std::weak_ptr<Blocks>(blocks_)](Tensor* used) {
                                        const std::unique_ptr<Tensor> owned(used);
                                        if (const auto alive = pool.lock())
                                          alive->give_back(std::move(*owned));
                                      });
  copy_bytes(block->mutable_bytes(), from.bytes(), bytes, workers);
  Tensor made(from.dtype(), from.shape(), Bytes(block->bytes(), static_cast<size_t>(bytes), block));
  made.set_format(from.format());
  return made;
}

int64_t CopyPool::free_bytes() const {
  const std::lock_guard lock(blocks_->mutex);
  int64_t bytes = 0;
  for (const auto& [size, block] : blocks_->free) bytes += size;
  return bytes;
}

Tensor copy_of(const Tensor& from, const Workers& workers, CopyPool* pool) {
  if (pool != nullptr) return pool->copy(from, workers);
  Tensor made(from.dtype(), from.shape());
  made.set_format(from.format());
  copy_bytes(made.mutable_bytes(), from.bytes(), from.byte_size(), workers);
  return made;
}

} // namespace dllm
