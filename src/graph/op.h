#pragma once
// Defines an operation: its name, shape rule, gradient and, if it is fused, its definition in plain
// operations. The engines implement the operations (cpu/kernels/, pjrt/emit/ops/).

#include "graph/graph.h"

#include <span>
#include <vector>

namespace dllm::graph {

// The arguments of a shape rule.
struct OpCall {
  const OpDef& op;
  std::span<const ValueType> inputs;
  const Attributes& attributes;
  std::span<const std::shared_ptr<const Graph>> bodies;
  const Tensor& literal;
};

// The arguments of a gradient function. grads: one entry per output; undefined if the output has no
// gradient.
struct VjpCall {
  Graph& graph;
  const Node& node;
  std::span<const Value> inputs;
  std::span<const Value> outputs;
  std::span<const Value> grads;
  std::span<const bool> wanted; // per input: whether a gradient is needed
};

// Whether a backward pass recomputes a result of the forward pass instead of keeping it. A
// recomputed result has the same bits.
enum class Repeat : uint8_t {
  // The result is kept, unless the scan's option `recompute` selects it.
  never,
  // Recomputing costs one pass over memory (elementwise operations, norms, moves). It is done if
  // fewer bytes are kept then.
  cheap,
  // The result is recomputed: moves without arithmetic, and gathered weights, which would need
  // memory for the whole model.
  always,
};

struct OpDef {
  const char* name;
  // Returns the types of the results. Fails through fail_op(), which prints the shapes.
  std::vector<ValueType> (*infer)(const OpCall&);
  // Returns one gradient per input; undefined if the input has none. If null, the gradient of
  // `decompose` is used.
  std::vector<Value> (*vjp)(const VjpCall&) = nullptr;
  // True: gradients end at this operation. An operation without vjp, decompose and stops_gradient
  // (integer results, decisions) fails when a gradient is needed; the error names it.
  bool stops_gradient = false;
  // Returns the definition of a fused operation in other operations. Gradients without `vjp`,
  // tests, and PJRT without a lowering use it.
  std::vector<Value> (*decompose)(Graph&, const Node&, std::span<const Value> inputs) = nullptr;
  // True for mesh and control operations, whose shape rules set the axes of the results. For other
  // operations, operands and results vary over the union of the operands' axes.
  bool own_axes = false;
  // True: each number of the result depends only on the operands' numbers with the same index. An
  // engine may run several such operations piece by piece.
  bool is_elementwise = false;
  Repeat repeat = Repeat::never;
};

// Returns all operations, sorted by name. registry.cpp joins the lists of graph/ops/.
std::span<const OpDef* const> all_ops();
const OpDef& find_op(std::string_view name); // fails with not_found

// Fails with a text such as "[add] f32(2, 3) and f32(4) do not broadcast".
[[noreturn]] void fail_op(const OpCall& call, const std::string& what);

} // namespace dllm::graph
