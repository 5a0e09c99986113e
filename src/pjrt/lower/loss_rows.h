#pragma once
// The rows of linear_cross_entropy and of its gradient.

#include "pjrt/lower/head.h"

namespace dllm::pjrt {

struct LossOperands {
  graph::ops::HeadOperands head;
  int targets, count, lse, dnll; // -1: not there
};
LossOperands loss_operands(const graph::Attributes& attributes, bool gradient);

// A tile of rows: u8(rows), 1 where the row has a target inside the vocabulary and is in use.
// begin: number of the first row, i32(); count may be undefined.
graph::Value rows_with_target(graph::Value targets, graph::Value begin, graph::Value count,
                              int64_t vocab);
// u8(rows, width): 1 at the target where it lies in the part of the vocabulary from `begin` on.
graph::Value target_mask(graph::Value targets, graph::Value begin, int64_t width);

// Weights are read once per tile, so a tile has many rows; run-time counts skip whole tiles.
inline constexpr int64_t kLossRows = 2048;

} // namespace dllm::pjrt
