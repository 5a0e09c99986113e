#pragma once
// The oracle of the tests: runs a graph on the host, one plain loop per primitive operation, floats
// in f64. Fused operations run by their definition. Several ranks of one mesh axis run in lockstep,
// so collectives can be proven too.

#include "graph/graph.h"

#include <string_view>
#include <vector>

namespace dllm::graph::test {

// Inputs in the order of graph.inputs(); floats may be f32, bf16 or f64. Results: floats as f64,
// others in their type.
std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& inputs);
// inputs[rank]; results [rank]. Every collective is over `axis`, or over axes of one rank.
std::vector<std::vector<Tensor>> evaluate_ranks(const Graph& graph, Axis axis,
                                                const std::vector<std::vector<Tensor>>& inputs);
// Can `op` be run: it is a primitive the oracle has, or it has a definition.
bool has_reference(std::string_view op);

} // namespace dllm::graph::test
