#pragma once
// Stacks that a scan uses up from the last element to the first, and stacks that it makes in the same order: the second
// kind may begin in what is left of the first. The gradients of the layers take the place of what the forward pass kept.

#include "cpu/storage.h"

#include <cstddef>
#include <vector>

namespace dllm::cpu {

// Two pieces of an arena that may overlap: `made` begins `shift` bytes behind the start of `kept`.
struct StackPair {
  size_t kept, made; // indices of the pieces
  int64_t shift;
  int64_t bytes; // of both together
};

// Every piece is in one pair at most.
std::vector<StackPair> pair_stacks(const Frame& frame, const std::vector<ArenaPiece>& pieces);

} // namespace dllm::cpu
