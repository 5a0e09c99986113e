#pragma once
// Reuses host memory for repeated copies of arrays. A checkpoint copies the weights into a snapshot
// every few hundred steps.

#include "base/threads/parallel.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <memory>

namespace dllm {

// The first copy of an array allocates memory, whose pages the kernel clears one by one; that takes
// longer than the copy. A later copy with the same number of bytes reuses a free block of the pool.
// Free blocks stay until the pool is destroyed. Any thread may release a copy, also after the pool
// is destroyed.
class CopyPool {
public:
  CopyPool();
  // Returns a read-only copy. Its block returns to the pool when the last tensor that shares it is
  // released. The threads of `workers` copy pieces of 1 MiB; the task is checked before each piece.
  Tensor copy(const Tensor& from, const Workers& workers);
  int64_t free_bytes() const;

private:
  struct Blocks;
  std::shared_ptr<Blocks> blocks_;
};

// Copies an array, in new memory if `pool` is null.
Tensor copy_of(const Tensor& from, const Workers& workers, CopyPool* pool);

} // namespace dllm
