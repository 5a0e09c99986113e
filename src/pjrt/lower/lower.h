#pragma once
// Fused operations as primitives: what compilers fuse by themselves is left to them, nothing large is ever whole.

#include "graph/graph.h"

#include <memory>
#include <span>
#include <vector>

namespace dllm::pjrt {

// Fused operations as graphs of primitives that suit a compiler which fuses elementwise work by
// itself: nothing as large as a table of scores or logits is ever held whole.

// The same inputs and outputs (names, order, donation); only operations without a definition
// remain, in the bodies of scan and while too.
std::shared_ptr<const graph::Graph> lower(const graph::Graph& source);

// Every file of this folder that is named after an operation hands its definition to the table in
// lower.cpp; operations that are not named here are lowered by OpDef::decompose.

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
