#pragma once
// Host memory that copies of arrays use again and again: that of a checkpoint's snapshot, made every few hundred steps.

#include "base/parallel.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <memory>

namespace dllm {

// The first copy of an array takes new memory, whose pages the kernel clears one by one, which takes longer than the copy.
// A later copy of as many bytes takes the block that an earlier one gave back. What is free stays until the pool
// goes. Any thread may drop a copy, also after the pool.
class CopyPool {
public:
  CopyPool();
  // Read-only, in storage of its own; the block returns to the pool with the last tensor that shares it. The threads of
  // `workers` copy pieces of 1 MiB, and its task is checked before each.
  Tensor copy(const Tensor& from, const Workers& workers);
  int64_t free_bytes() const;

private:
  struct Blocks;
  std::shared_ptr<Blocks> blocks_;
};

// The same in new memory. pool: may be null.
Tensor copy_of(const Tensor& from, const Workers& workers, CopyPool* pool);

} // namespace dllm
