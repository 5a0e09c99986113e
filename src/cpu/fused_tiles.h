#pragma once
// FusedTiles is the kernel of a group of elementwise steps. All members run on one tile of the
// arrays before the next tile begins.

#include "cpu/kernel.h"
#include "graph/graph.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace dllm::cpu {

inline constexpr int64_t kTileNumbers = 4096; // numbers of a tile of one array, 16 KiB
inline constexpr int64_t kTileBytes = kTileNumbers * static_cast<int64_t>(sizeof(float));

// The place of an operand of a member: a tile of an input of the group, a scalar input, or a slot.
// A slot is scratch memory for one tile of a member's result.
struct TileOperand {
  enum Kind : uint8_t { kInput, kScalar, kSlot } kind;
  size_t index; // number of the group's input, or of the slot
};

struct TileMember {
  // Kernels over a whole tile and over the shorter last tile, which is empty where all tiles are
  // whole.
  std::function<void(const KernelCall&)> whole, rest;
  std::vector<TileOperand> operands;
  size_t slot = 0; // where the result is written
};

struct FusedTiles {
  std::vector<TileMember> members;
  std::vector<size_t> outputs; // by output of the group: its slot
  size_t slots = 0;
  // Numbers of each array, tiles of these numbers, and chunks of tiles, each with slots of its own.
  int64_t count = 0, tiles = 0, chunks = 0;

  int64_t scratch_bytes() const { return chunks * static_cast<int64_t>(slots) * kTileBytes; }
  void run(const KernelCall& call) const;

private:
  void run_tile(const KernelCall& call, int64_t tile, std::byte* space) const;
};

// Returns the kernel of one operation over `numbers` numbers; scalars[i] is true for scalar
// operands. Returns an empty function for 0 numbers.
std::function<void(const KernelCall&)>
tile_kernel(const graph::Node& node, const std::vector<bool>& scalars, int64_t numbers);

} // namespace dllm::cpu
