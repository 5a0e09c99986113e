#pragma once
// The update as graph values: global norm, clipping, AdamW, moving average.

#include "graph/graph.h"

#include <vector>

namespace dllm::train {

// Host numbers of one update, f32(kScalarCount). The first seven are those of graph::adamw_update.
// kClip: infinity: off.
enum Scalar {
  kLr,
  kBeta1,
  kBeta2,
  kEps,
  kWeightDecay,
  kBias1,
  kBias2,
  kClip,
  kEmaDecay,
  kNormalizer,
  kLossSum,
  kScalarCount
};

// Vectors are per trained parameter; ema may be empty.
struct UpdateValues {
  std::vector<graph::Value> params, first, second, ema, gradients;
  std::vector<bool> decay;
  graph::Value loss_sum;   // f32 scalar, checked for being finite
  graph::Value normalizer; // f32 scalar: gradients are divided by max(1, it)
  graph::Value scalars;    // f32(kScalarCount)
  graph::Value halted;     // f32 scalar: not 0 leaves the update out; undefined: 0
};
struct Updated {
  std::vector<graph::Value> params, first, second, ema;
  graph::Value norm;   // f32 scalar: 2-norm of all gradients after division, before clipping
  graph::Value finite; // u8 scalar: 0 means that every array is what it was, to the bit
};
Updated clipped_adamw(graph::Graph& graph, const UpdateValues& update);

graph::Value scalar_at(graph::Value scalars, int index);
graph::Value at_least_one(graph::Value count);

} // namespace dllm::train
