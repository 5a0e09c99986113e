#pragma once
// What an operation is: a name, a shape rule, a gradient, and for fused ones the same thing in plain operations.
// How an engine runs it is in the engine (cpu/kernels/, pjrt/emit/ops/).

#include "graph/graph.h"

#include <span>
#include <vector>

namespace dllm::graph {

// What a shape rule sees.
struct OpCall {
  const OpDef& op;
  std::span<const ValueType> inputs;
  const Attributes& attributes;
  std::span<const std::shared_ptr<const Graph>> bodies;
  const Tensor& literal;
};

// What a gradient sees. grads has one entry per output; an undefined Value means that output has no gradient.
struct VjpCall {
  Graph& graph;
  const Node& node;
  std::span<const Value> inputs;
  std::span<const Value> outputs;
  std::span<const Value> grads;
  std::span<const bool> wanted; // per input: whether a gradient is needed
};

// Whether a backward pass computes a result of the forward pass again instead of keeping it. Computed again it has the same bits.
enum class Repeat : uint8_t {
  never, // kept, unless recomputation is asked for
  cheap, // costs a pass over memory and no more (elementwise operations, norms, moves): again where that keeps fewer bytes
  always, // moves without arithmetic, and gathered weights: kept, they would hold the whole model
};

struct OpDef {
  const char* name;
  // Types of the results. Fails through fail_op() with the shapes it saw.
  std::vector<ValueType> (*infer)(const OpCall&);
  // One gradient per input (undefined: none). Null: no gradient exists (integer results, decisions); then gradients stop
  // here silently only if `stops_gradient`, else asking for one is an error that names the op.
  std::vector<Value> (*vjp)(const VjpCall&) = nullptr;
  bool stops_gradient = false;
  // The definition in other operations, for fused ops: the gradient's fallback, the test's oracle, PJRT's fallback.
  std::vector<Value> (*decompose)(Graph&, const Node&, std::span<const Value> inputs) = nullptr;
  // Mesh and control operations state the axes of their results themselves; elsewhere operands are made varying over
  // the union of their axes and the results vary over the same.
  bool own_axes = false;
  // A number of the result depends on the numbers at its place alone: an engine may run several such operations a piece at
  // a time.
  bool is_elementwise = false;
  Repeat repeat = Repeat::never;
};

// All operations, sorted by name: the lists of graph/ops/, joined by registry.cpp.
std::span<const OpDef* const> all_ops();
const OpDef& find_op(std::string_view name); // fails with not_found

// "[add] f32(2, 3) and f32(4) do not broadcast"
[[noreturn]] void fail_op(const OpCall& call, const std::string& what);

} // namespace dllm::graph
