#pragma once
// Every file of this folder that is named after an operation hands its definition to the table in
// lower.cpp; operations that are not named here are lowered by OpDef::decompose.

#include "graph/graph.h"

#include <span>
#include <vector>

namespace dllm::pjrt {

using Results = std::vector<graph::Value>;
using Operands = std::span<const graph::Value>;

Results lower_attention(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_attention_grad(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_expert_linear(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_expert_linear_input_grad(graph::Graph& graph, const graph::Node& node,
                                       Operands inputs);
Results lower_expert_linear_weight_grad(graph::Graph& graph, const graph::Node& node,
                                        Operands inputs);
Results lower_linear(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_linear_input_grad(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_linear_cross_entropy(graph::Graph& graph, const graph::Node& node, Operands inputs);
Results lower_linear_cross_entropy_grad(graph::Graph& graph, const graph::Node& node,
                                        Operands inputs);
Results lower_token_statistics(graph::Graph& graph, const graph::Node& node, Operands inputs);

} // namespace dllm::pjrt
