#pragma once
// Finds stacks that may overlap in the arena. A reverse scan reads some stacks for the last time
// and writes others, both from the last element to the first. So a new stack may use the memory of
// elements that were read already. For example, gradients of the layers use the memory of values
// that the forward pass kept.

#include "cpu/storage.h"

#include <cstddef>
#include <vector>

namespace dllm::cpu {

// Two pieces of an arena that may overlap. `made` begins `shift` bytes after the start of `kept`.
struct StackPair {
  size_t kept, made; // indices of the pieces
  int64_t shift;
  int64_t bytes; // of both together
};

// Returns the pairs of the frame's scans. A piece is in at most one pair.
std::vector<StackPair> pair_stacks(const Frame& frame, const std::vector<ArenaPiece>& pieces);

} // namespace dllm::cpu
