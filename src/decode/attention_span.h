#pragma once
// How far a position attends. Every kind of attention a decoder needs is one rule: positions in
// blocks of a grid, each attending to its own block and all before it.

#include <algorithm>
#include <cstdint>

namespace dllm::decode {

struct AttentionSpan {
  int64_t block = 0;         // 0: bidirectional; 1: causal
  int64_t origin = 0;        // a block begins here; the grid goes on to both sides
  bool whole_prompt = false; // positions before origin are one block

  friend bool operator==(const AttentionSpan&, const AttentionSpan&) = default;

  bool is_exact() const { return block > 0; } // K and V of a decided prefix never change

  // `position` attends to [0, limit); may be beyond the canvas.
  int64_t limit(int64_t position) const {
    if (block == 0) return INT32_MAX;
    const int64_t offset = position - origin;
    if (whole_prompt && offset < 0) return origin;
    const int64_t number = offset >= 0 ? offset / block : -((-offset + block - 1) / block);
    return origin + (number + 1) * block;
  }
  // Start of the block that holds `position`; no earlier position attends past it.
  int64_t floor(int64_t position) const {
    if (block == 0) return 0;
    if (whole_prompt && position < origin) return 0;
    return std::max<int64_t>(0, limit(position) - block);
  }
};

} // namespace dllm::decode
