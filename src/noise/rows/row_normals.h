#pragma once
// Normal numbers that a program draws, with a key for each row of the batch. A row has the same
// numbers in any cut of its batch, and no array of noise travels from the host.

#include "base/random.h"
#include "graph/graph.h"
#include "tensor/tensor.h"

#include <cstdint>

namespace dllm::noise {

// Returns u32(rows, 2): the key of each row of an update. first: global number of the first row.
// use: differs between the draws of one row.
Tensor row_keys(uint64_t seed, int64_t step, int64_t first, int64_t rows, uint32_t use);

// Returns standard normal numbers f32(shape), where shape[0] is the number of keys. use: differs
// between the draws of one key.
graph::Value row_normals(graph::Value keys, const Shape& shape, uint32_t use = 0);

} // namespace dllm::noise
