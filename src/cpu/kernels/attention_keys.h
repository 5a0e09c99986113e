#pragma once
// Keys and values as an attention kernel reads them: arrays (batch, keys, kv_heads, dim), or rows
// of a table that a `take` would gather (the cache of decoding), read where they are.

#include "cpu/kernel.h"

#include <algorithm>
#include <cstdint>

namespace dllm::cpu {

// Where the rows of one operand lie; made when the kernel is.
struct KeyPlan {
  bool gathered = false;
  DType dtype = DType::f32; // of the table; bf16 is widened
  int64_t rows = 0;         // of the table
  int64_t keys = 0;         // of one batch row
  int64_t kv_heads = 0, dim = 0;
  int32_t value = -1, indices = -1; // what to read instead of the node's input

  // operand: number of the node's input, f32(batch, keys, kv_heads, dim).
  KeyPlan(const CompileInfo& info, size_t operand);
};

// The operand of one run.
struct KeyRows {
  const KeyPlan& plan;
  const std::byte* table;
  const int32_t* indices; // (batch, keys), or null

  int64_t row_of(int64_t batch, int64_t key) const {
    const int64_t at = batch * plan.keys + key;
    return indices == nullptr ? at : std::clamp<int64_t>(indices[at], 0, plan.rows - 1);
  }
  // One key's numbers of one head; `buffer` (dim) is used when they must be widened.
  const float* row(int64_t batch, int64_t key, int64_t head, float* buffer) const;
  // Keys [first, first + count) of one head as f32(count, dim): in place when they lie `stride`
  // apart, else in `buffer`.
  const float* tile(int64_t batch, int64_t first, int64_t count, int64_t head, float* buffer,
                    int64_t* stride) const;
};

} // namespace dllm::cpu
