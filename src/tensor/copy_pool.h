#pragma once
// Host memory that copies of arrays use again and again: that of a checkpoint's snapshot, made every few hundred steps.

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
  // Read-only, in storage of its own; the block returns to the pool with the last tensor that shares it. The task is
  // checked between pieces.
  Tensor copy(const Tensor& from, const Task* task);
  int64_t free_bytes() const;

private:
  struct Blocks;
  std::shared_ptr<Blocks> blocks_;
};

} // namespace dllm
