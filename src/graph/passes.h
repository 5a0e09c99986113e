#pragma once
// Passes over a finished graph. Each returns a new graph with the same inputs and outputs (names, order, donation).

#include "graph/graph.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::graph {

std::shared_ptr<Graph> remove_dead_code(const Graph& graph);
std::shared_ptr<Graph>
merge_common_nodes(const Graph& graph); // common subexpressions, bodies included
std::shared_ptr<Graph>
fold_constants(const Graph& graph); // small integer and float arithmetic on literals
std::shared_ptr<Graph> simplify(const Graph& graph); // the three, in a fixed order
// linear_cross_entropy and its gradient as one operation, where the weight of a row does not depend on the loss. Nodes of
// the outermost graph alone.
std::shared_ptr<Graph> join_loss_gradients(std::shared_ptr<Graph> graph);
// Every fused op replaced by its definition; `except` names ops to leave alone.
std::shared_ptr<Graph> decompose(const Graph& graph, std::span<const std::string> except = {});
// A node's definition in other operations, as OpDef::decompose; null leaves the node alone.
using Definition = std::vector<Value> (*)(Graph&, const Node&, std::span<const Value> inputs);
// Every op replaced by the definition that is answered for it, again and again until none is answered.
std::shared_ptr<Graph> decompose(const Graph& graph,
                                 const std::function<Definition(const OpDef&)>& definition_of);
// Floating-point operations of one run, scans multiplied out (a multiply-add is 2).
double count_flops(const Graph& graph);

} // namespace dllm::graph
