#pragma once
// Reverse mode over a range of nodes: what gradients(), the gradient of scan and the fallback
// through a definition share.

#include "graph/graph.h"

#include <vector>

namespace dllm::graph {

// Gradients flow through values of these types; each has the type of its value.
bool is_differentiable(DType dtype);

// Pulls `seeds` (gradients of `outputs`; undefined: none) back to `wrt` through the nodes of index
// >= first_node that are there now; gradients of earlier values stop at `wrt`. Answers with one
// Value per wrt, undefined where nothing arrives.
std::vector<Value> pull_back(Graph& graph, std::span<const Value> outputs,
                             std::span<const Value> seeds, std::span<const Value> wrt,
                             int32_t first_node = 0);

} // namespace dllm::graph
