#pragma once
// The update of all parameters as graph values: global norm, clipping, the optimizer, the moving average.

#include "train/optimizer.h"

#include <vector>

namespace dllm::train {

// Numbers from the host, f32(n + kSharedScalarCount): first the n of the optimizer, then these.
enum SharedScalar {
  kClip,        // largest global norm; infinity: any
  kEmaDecay,    // of the moving average
  kNormalizer,  // apply: of all micro-batches
  kLossSum,     // apply: of all micro-batches
  kSharedScalarCount
};
int64_t scalar_count(const Optimizer& optimizer);
graph::Value shared_scalar(const Optimizer& optimizer, graph::Value scalars, SharedScalar which);

struct UpdateValues {
  std::vector<ParameterInputs> parameters;
  std::vector<graph::Value> averages;  // one for each parameter, or none
  graph::Value loss_sum;               // f32 scalar, checked for being finite
  graph::Value normalizer;             // f32 scalar: gradients are divided by max(1, it)
  graph::Value scalars;                // f32(scalar_count)
  graph::Value halted;                 // f32 scalar: not 0 leaves the update out; undefined: 0
};
struct Updated {
  std::vector<ParameterOutputs> parameters;
  std::vector<graph::Value> averages;
  graph::Value norm;    // f32 scalar: 2-norm of all gradients after division, before clipping
  graph::Value finite;  // u8 scalar: 0 means that every array is what it was, to the bit
};
Updated clipped_update(graph::Graph& graph, const Optimizer& optimizer, const Options& options,
                       const UpdateValues& update);

graph::Value at_least_one(graph::Value count);

}  // namespace dllm::train
