#pragma once
// Normal numbers of a graph that depend on the key of a row alone, so that any cut of a batch draws
// the same numbers.

#include "graph/graph.h"

namespace dllm::noise {

// Returns numbers of a standard normal distribution, f32(batch, ...), from keys u32(batch, 2).
graph::Value normal_draws(graph::Value keys, const Shape& shape);

} // namespace dllm::noise
