#pragma once
// Offsets in one block for pieces of memory that live for a while: pieces whose times overlap do
// not overlap in space.

#include <cstdint>
#include <span>
#include <vector>

namespace dllm::cpu {

struct Piece {
  int64_t bytes = 0;
  int32_t begin = 0, end = 0; // first and last step that needs it, both included
  int64_t offset = -1;        // answer
};

// Fills the offsets (64-byte aligned) and answers with the size of the block. Largest first, best
// fit.
int64_t place_pieces(std::span<Piece> pieces);

} // namespace dllm::cpu
