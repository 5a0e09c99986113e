#pragma once
// The embedding of a number, such as a noise level, before the matrices of a time embedding.

#include "graph/graph.h"

#include <cstdint>

namespace dllm::model {

// Returns f32(rows, size) of numbers f32(rows, 1): the sines of number * 10000^(-k / half), then
// the cosines, for k = 0 to half - 1 with half = size / 2. An odd size ends with zeros.
graph::Value sinusoid(graph::Value numbers, int64_t size);

} // namespace dllm::model
