#pragma once
// Reverse mode over a range of nodes: shared by gradients(), the gradient of scan and the gradient through a
// definition.

#include "graph/graph.h"

#include <string>
#include <vector>

namespace dllm::graph {

// Gradients flow through values of these types; each has the type of its value.
bool is_differentiable(DType dtype);

// Pulls `seeds` (gradients of `outputs`; undefined: none) back to `wrt` through the nodes of index
// >= first_node that exist now; gradients of earlier values stop at `wrt`. Returns one
// Value per wrt, undefined where no gradient arrives.
std::vector<Value> pull_back(Graph& graph, std::span<const Value> outputs,
                             std::span<const Value> seeds, std::span<const Value> wrt,
                             int32_t first_node = 0);

// Why `x` has no gradient: the first conversion to whole numbers between it and `loss`, as "[convert] to i8(4, 3)". "" when
// no path from x to loss is cut by a conversion alone; argmax, comparisons and indices of top_k cut a path as well.
std::string cut_by_conversion(const Graph& graph, Value x, Value loss);

} // namespace dllm::graph
