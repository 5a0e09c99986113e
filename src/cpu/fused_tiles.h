#pragma once
// The kernel of a group of elementwise steps: every member runs on a tile of its arrays before the next tile is begun.

#include "cpu/kernel.h"
#include "graph/graph.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace dllm::cpu {

inline constexpr int64_t kTileNumbers = 4096; // of one array: 16 KiB
inline constexpr int64_t kTileBytes = kTileNumbers * static_cast<int64_t>(sizeof(float));

// Where an operand of a member is.
struct TileOperand {
  enum Kind : uint8_t { kInput, kScalar, kSlot } kind;
  size_t index; // of the group's inputs, or the slot of a member's result
};

struct TileMember {
  std::function<void(const KernelCall&)> whole, rest; // of a tile, of the last tile
  std::vector<TileOperand> operands;
  size_t slot = 0;
};

struct FusedTiles {
  std::vector<TileMember> members;
  std::vector<size_t> outputs; // slot of each output of the group
  size_t slots = 0;
  int64_t count = 0, tiles = 0, chunks = 0;

  int64_t scratch_bytes() const { return chunks * static_cast<int64_t>(slots) * kTileBytes; }
  void run(const KernelCall& call) const;

private:
  void run_tile(const KernelCall& call, int64_t tile, std::byte* space) const;
};

// The kernel of one operation over `numbers` numbers, some operands scalars. Empty for 0.
std::function<void(const KernelCall&)>
tile_kernel(const graph::Node& node, const std::vector<bool>& scalars, int64_t numbers);

} // namespace dllm::cpu
