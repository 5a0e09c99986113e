// expert_linear: y[r, j] = x[r] weight[experts[r, j]]^T, and the two products of its gradient. An
// expert MLP is three expert_linear nodes (docs/decisions/0004-expert-linear.md). The choice of
// experts is data, so one program serves any routing.

#include "graph/ops/build.h"

#include "base/error.h"

namespace dllm::graph {
namespace {

using namespace ops;

// Checks weight (experts, out, in) and its scale f32(experts, out). scale: operand index or -1.
Shape expect_matrices(const OpCall& call, size_t weight, int scale) {
  const Shape shape = expect_weight(call, weight, 3, scale);
  if (shape.dim(0) < 1) fail_op(call, "weight " + call.inputs[weight].text() + " has no experts");
  return shape;
}

// Checks experts i32(rows, choices).
Shape expect_experts(const OpCall& call, size_t index) {
  expect_dtype(call, index, "experts", {DType::i32});
  expect_rank(call, index, "experts", 2);
  return call.inputs[index].shape;
}

Types expert_linear_types(const OpCall& call) {
  const int scale = call.attributes.flag("has_scale") ? 3 : -1;
  expect_inputs(call, scale >= 0 ? 4 : 3);
  const Shape experts = expect_experts(call, 1), weight = expect_matrices(call, 2, scale);
  expect_dtype(call, 0, "x", {DType::f32});
  expect_shape(call, 0, "x", Shape{experts.dim(0), weight.dim(2)});
  return {{Shape{experts.dim(0), experts.dim(1), weight.dim(1)}, DType::f32, {}}};
}

Types expert_linear_input_grad_types(const OpCall& call) {
  const int scale = call.attributes.flag("has_scale") ? 3 : -1;
  expect_inputs(call, scale >= 0 ? 4 : 3);
  const Shape experts = expect_experts(call, 1), weight = expect_matrices(call, 2, scale);
  expect_dtype(call, 0, "dy", {DType::f32});
  expect_shape(call, 0, "dy", Shape{experts.dim(0), experts.dim(1), weight.dim(1)});
  return {{Shape{experts.dim(0), weight.dim(2)}, DType::f32, {}}};
}

Types expert_linear_weight_grad_types(const OpCall& call) {
  expect_inputs(call, 3);
  const Shape experts = expect_experts(call, 1);
  expect_dtype(call, 0, "dy", {DType::f32});
  expect_rank(call, 0, "dy", 3);
  expect_dtype(call, 2, "x", {DType::f32});
  expect_rank(call, 2, "x", 2);
  const Shape &dy = call.inputs[0].shape, &x = call.inputs[2].shape;
  if (dy.dim(0) != experts.dim(0) || dy.dim(1) != experts.dim(1) || x.dim(0) != experts.dim(0))
    fail_op(call, types_text(call.inputs) + " do not have the same rows");
  return {{Shape{call.attributes.integer("count"), dy.dim(2), x.dim(1)}, DType::f32, {}}};
}

std::vector<Value> expert_linear_vjp(const VjpCall& call) {
  const Value x = call.inputs[0], experts = call.inputs[1], weight = call.inputs[2],
              dy = call.grads[0];
  const bool has_scale = call.inputs.size() > 3;
  std::vector<Value> grads(call.inputs.size());
  if (call.wanted[0]) {
    std::vector<Value> inputs{dy, experts, weight};
    if (has_scale) inputs.push_back(call.inputs[3]);
    grads[0] = apply("expert_linear_input_grad", inputs, {{"has_scale", has_scale}});
  }
  if (call.wanted[2]) {
    expect_trainable("expert_linear", weight);
    grads[2] = apply("expert_linear_weight_grad", {dy, experts, x}, {{"count", weight.dim(0)}});
  }
  if (has_scale && call.wanted[3])
    fail(Code::unimplemented, "[expert_linear] scale of an i8 weight has no gradient");
  return grads;
}

// Returns the matrix of every choice, f32(rows x choices, out, in), with zeros for an expert number
// out of range.
Value chosen_matrices(const Node& node, std::span<const Value> inputs) {
  Value wide = widen_weight(inputs[2], {});
  if (node.attributes.flag("has_scale")) {
    wide = multiply(wide, reshape(inputs[3], Shape{wide.dim(0), wide.dim(1), 1}));
  }
  const Value experts = reshape(inputs[1], Shape{inputs[1].shape().count()});
  const Value zero = full_like(experts, 0);
  const Value exists =
      logical_and(greater_equal(experts, zero),
                  less(experts, full_like(experts, static_cast<double>(wide.dim(0)))));
  const Value matrices = take(wide, experts);
  return select(reshape(exists, Shape{experts.dim(0), 1, 1}), matrices, full_like(matrices, 0));
}

// Reshapes (rows, choices, n) to (rows x choices, n, 1). x (rows, n) is repeated for each choice.
Value columns(Value x, int64_t choices) {
  if (x.rank() == 2)
    x = broadcast(reshape(x, Shape{x.dim(0), 1, x.dim(1)}), Shape{x.dim(0), choices, x.dim(1)});
  return reshape(x, Shape{x.dim(0) * choices, x.dim(2), 1});
}

std::vector<Value> expert_linear_plain(Graph&, const Node& node, std::span<const Value> inputs) {
  const int64_t rows = inputs[1].dim(0), choices = inputs[1].dim(1);
  const Value y = dot(chosen_matrices(node, inputs), columns(inputs[0], choices));
  return {reshape(y, Shape{rows, choices, inputs[2].dim(1)})};
}

std::vector<Value> input_grad_plain(Graph&, const Node& node, std::span<const Value> inputs) {
  const int64_t rows = inputs[1].dim(0), choices = inputs[1].dim(1);
  const Value turned = transpose(chosen_matrices(node, inputs), {0, 2, 1});
  const Value dx = dot(turned, columns(inputs[0], choices));
  return {sum(reshape(dx, Shape{rows, choices, inputs[2].dim(2)}), {1})};
}

std::vector<Value> weight_grad_plain(Graph& graph, const Node& node,
                                     std::span<const Value> inputs) {
  const int64_t choices = inputs[1].dim(1), out = inputs[0].dim(2), in = inputs[2].dim(1);
  const Value x = columns(inputs[2], choices);
  const Value outer = dot(columns(inputs[0], choices), reshape(x, Shape{x.dim(0), 1, in}));
  const Value none = full(graph, Shape{node.attributes.integer("count"), out, in}, 0);
  return {scatter_add(none, reshape(inputs[1], Shape{x.dim(0)}), outer)};
}

constexpr OpDef kExpertLinearOps[] = {
    {.name = "expert_linear",
     .infer = expert_linear_types,
     .vjp = expert_linear_vjp,
     .decompose = expert_linear_plain},
    {.name = "expert_linear_input_grad",
     .infer = expert_linear_input_grad_types,
     .decompose = input_grad_plain},
    {.name = "expert_linear_weight_grad",
     .infer = expert_linear_weight_grad_types,
     .decompose = weight_grad_plain},
};

} // namespace

namespace ops {
std::span<const OpDef> expert_linear_ops() {
  return kExpertLinearOps;
}
} // namespace ops

Value expert_linear(Value x, Value experts, Value weight, Value scale) {
  std::vector<Value> inputs{x, experts, weight};
  if (scale.defined()) inputs.push_back(scale);
  return apply("expert_linear", inputs, {{"has_scale", scale.defined()}});
}

} // namespace dllm::graph
