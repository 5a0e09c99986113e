#pragma once
// Passes over a finished graph. Each returns a new graph with the same inputs and outputs (names, order, donation).

#include "graph/graph.h"

#include <memory>

namespace dllm::graph {

std::shared_ptr<Graph> remove_dead_code(const Graph& graph);
std::shared_ptr<Graph> merge_common_nodes(const Graph& graph);   // common subexpressions, bodies included
std::shared_ptr<Graph> fold_constants(const Graph& graph);       // small integer and float arithmetic on literals
std::shared_ptr<Graph> simplify(const Graph& graph);             // the three, in a fixed order
// Every fused op replaced by its definition; `except` names ops to leave alone.
std::shared_ptr<Graph> decompose(const Graph& graph, std::span<const std::string> except = {});
// Floating-point operations of one run, scans multiplied out (a multiply-add is 2).
double count_flops(const Graph& graph);

}  // namespace dllm::graph
