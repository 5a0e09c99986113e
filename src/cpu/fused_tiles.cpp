#include "cpu/fused_tiles.h"

#include "graph/op.h"
#include "graph/ops.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace dllm::cpu {

void FusedTiles::run_tile(const KernelCall& call, int64_t tile, std::byte* space) const {
  const int64_t at = tile * kTileBytes;
  const int64_t numbers = std::min(kTileNumbers, count - tile * kTileNumbers);
  for (const TileMember& member : members) {
    Operand operands[3], result;
    for (size_t i = 0; i < member.operands.size(); ++i) {
      const TileOperand& from = member.operands[i];
      if (from.kind == TileOperand::kSlot)
        operands[i].data = space + static_cast<int64_t>(from.index) * kTileBytes;
      else
        operands[i].data =
            call.inputs[from.index].data + (from.kind == TileOperand::kInput ? at : 0);
    }
    result.data = space + static_cast<int64_t>(member.slot) * kTileBytes;
    const KernelCall part{operands, &result, nullptr, call.pool.serial(), nullptr};
    (numbers == kTileNumbers ? member.whole : member.rest)(part);
  }
  // Outputs are written last, because an output may overwrite an operand.
  for (size_t o = 0; o < outputs.size(); ++o) {
    std::memcpy(call.outputs[o].data + at, space + static_cast<int64_t>(outputs[o]) * kTileBytes,
                static_cast<size_t>(numbers) * sizeof(float));
  }
}

void FusedTiles::run(const KernelCall& call) const {
  parallel(call.pool, chunks, [&](int64_t chunk) {
    std::byte* space = call.scratch + chunk * static_cast<int64_t>(slots) * kTileBytes;
    for (int64_t tile = tiles * chunk / chunks; tile < tiles * (chunk + 1) / chunks; ++tile) {
      if (tile % 16 == 0) call.pool.check();
      run_tile(call, tile, space);
    }
  });
}

std::function<void(const KernelCall&)>
tile_kernel(const graph::Node& node, const std::vector<bool>& scalars, int64_t numbers) {
  if (numbers == 0) return {};
  graph::Graph tile("tile");
  std::vector<graph::Value> inputs;
  for (size_t i = 0; i < scalars.size(); ++i) {
    const graph::Value x =
        tile.input("x" + std::to_string(i), DType::f32, scalars[i] ? Shape{} : Shape{numbers});
    inputs.push_back(scalars[i] ? graph::broadcast(x, Shape{numbers}) : x);
  }
  tile.add(*node.op, inputs, node.attributes);
  return find_kernel(node.op->name)({tile, tile.nodes().back(), 1, {}, {}}).run;
}

} // namespace dllm::cpu
