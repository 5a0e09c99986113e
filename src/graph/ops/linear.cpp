// Matrix products with a weight of any format, and of two values.

#include "graph/ops/build.h"

#include "base/error.h"

namespace dllm::graph {
namespace {

using namespace ops;

// linear: y = x w^T + bias, and the two products of its gradient, dx = dy w and dw = dy^T x.

void expect_last(const OpCall& call, size_t index, const char* what, int64_t extent) {
  expect_dtype(call, index, what, {DType::f32});
  const ValueType& x = call.inputs[index];
  if (x.shape.rank() >= 1 && x.shape.dim(-1) == extent) return;
  fail_op(call, types_text(call.inputs) + " do not fit: the last axis of " + what + " must be " +
                    std::to_string(extent));
}

Types linear_types(const OpCall& call) {
  OperandOrder order(2);
  const int bias = order.take(call.attributes.flag("has_bias"));
  const int scale = order.take(call.attributes.flag("has_scale"));
  expect_inputs(call, static_cast<size_t>(order.count()));
  const Shape weight = expect_weight(call, 1, 2, scale);
  expect_last(call, 0, "x", weight.dim(1));
  if (bias >= 0) {
    expect_dtype(call, static_cast<size_t>(bias), "bias", {DType::f32});
    expect_shape(call, static_cast<size_t>(bias), "bias", Shape{weight.dim(0)});
  }
  return {{call.inputs[0].shape.with_dim(-1, weight.dim(0)), DType::f32, {}}};
}

Types linear_input_grad_types(const OpCall& call) {
  const int scale = call.attributes.flag("has_scale") ? 2 : -1;
  expect_inputs(call, scale >= 0 ? 3 : 2);
  const Shape weight = expect_weight(call, 1, 2, scale);
  expect_last(call, 0, "dy", weight.dim(0));
  return {{call.inputs[0].shape.with_dim(-1, weight.dim(1)), DType::f32, {}}};
}

Types linear_weight_grad_types(const OpCall& call) {
  expect_inputs(call, 2);
  const Shape& dy = call.inputs[0].shape;
  const Shape& x = call.inputs[1].shape;
  expect_dtype(call, 0, "dy", {DType::f32});
  expect_dtype(call, 1, "x", {DType::f32});
  if (dy.rank() < 1 || dy.rank() != x.rank() || !(dy.without(-1) == x.without(-1))) {
    fail_op(call, types_text(call.inputs) + " do not have the same rows");
  }
  return {{Shape{dy.dim(-1), x.dim(-1)}, DType::f32, {}}};
}

Value input_grad(Value dy, Value weight, Value scale) {
  std::vector<Value> inputs{dy, weight};
  if (scale.defined()) inputs.push_back(scale);
  return apply("linear_input_grad", inputs, {{"has_scale", scale.defined()}});
}

std::vector<Value> linear_vjp(const VjpCall& call) {
  const Value x = call.inputs[0], weight = call.inputs[1], dy = call.grads[0];
  OperandOrder order(2);
  const int bias = order.take(call.node.attributes.flag("has_bias"));
  const int scale = order.take(call.node.attributes.flag("has_scale"));
  std::vector<Value> grads(call.inputs.size());
  if (call.wanted[0]) {
    grads[0] =
        input_grad(dy, weight, scale >= 0 ? call.inputs[static_cast<size_t>(scale)] : Value{});
  }
  if (call.wanted[1]) {
    expect_trainable("linear", weight);
    grads[1] = apply("linear_weight_grad", {dy, x});
  }
  if (bias >= 0 && call.wanted[static_cast<size_t>(bias)]) {
    grads[static_cast<size_t>(bias)] = sum(as_rows(dy), {0});
  }
  if (scale >= 0 && call.wanted[static_cast<size_t>(scale)]) {
    fail(Code::unimplemented, "[linear] scale of an i8 weight has no gradient");
  }
  return grads;
}

std::vector<Value> linear_definition(Graph&, const Node& node, std::span<const Value> inputs) {
  OperandOrder order(2);
  const int bias = order.take(node.attributes.flag("has_bias"));
  const int scale = order.take(node.attributes.flag("has_scale"));
  const Value x = inputs[0];
  const Value weight =
      widen_weight(inputs[1], scale >= 0 ? inputs[static_cast<size_t>(scale)] : Value{});
  Value y = dot(as_rows(x), transpose(weight, {1, 0}));
  if (bias >= 0) y = add(y, inputs[static_cast<size_t>(bias)]);
  return {reshape(y, x.shape().with_dim(-1, weight.dim(0)))};
}

std::vector<Value> input_grad_definition(Graph&, const Node& node, std::span<const Value> inputs) {
  const Value dy = inputs[0];
  const Value weight =
      widen_weight(inputs[1], node.attributes.flag("has_scale") ? inputs[2] : Value{});
  return {reshape(dot(as_rows(dy), weight), dy.shape().with_dim(-1, weight.dim(1)))};
}

// The gradient of y = dy w for its inputs dy and w. A model also uses this operation itself, for a
// mean of embeddings.
std::vector<Value> input_grad_vjp(const VjpCall& call) {
  const Value dy = call.inputs[0], weight = call.inputs[1], g = call.grads[0];
  std::vector<Value> grads(call.inputs.size());
  const bool has_scale = call.node.attributes.flag("has_scale");
  if (call.wanted[0]) grads[0] = linear(g, weight, {}, has_scale ? call.inputs[2] : Value{});
  if (call.wanted[1]) {
    expect_trainable("linear_input_grad", weight);
    grads[1] = apply("linear_weight_grad", {dy, g});
  }
  if (has_scale && call.wanted[2])
    fail(Code::unimplemented, "[linear_input_grad] scale of an i8 weight has no gradient");
  return grads;
}

std::vector<Value> weight_grad_definition(Graph&, const Node&, std::span<const Value> inputs) {
  return {dot(transpose(as_rows(inputs[0]), {1, 0}), as_rows(inputs[1]))};
}

// dot: batched matrix product (.., m, k) x (.., k, n).

Types dot_types(const OpCall& call) {
  expect_inputs(call, 2);
  expect_dtype(call, 0, "x", {DType::f32});
  expect_dtype(call, 1, "y", {DType::f32});
  const Shape& x = call.inputs[0].shape;
  const Shape& y = call.inputs[1].shape;
  bool fits = x.rank() >= 2 && x.rank() == y.rank() && x.dim(-1) == y.dim(-2);
  for (int64_t i = 0; fits && i + 2 < x.rank(); ++i) fits = x.dim(i) == y.dim(i);
  if (!fits) fail_op(call, types_text(call.inputs) + " do not multiply");
  return {{x.with_dim(-1, y.dim(-1)), DType::f32, {}}};
}

std::vector<Value> dot_vjp(const VjpCall& call) {
  const Value g = call.grads[0];
  return {call.wanted[0] ? dot(g, swap_last(call.inputs[1])) : Value{},
          call.wanted[1] ? dot(swap_last(call.inputs[0]), g) : Value{}};
}

Shape leading(const Shape& shape) {
  return Shape(std::vector<int64_t>(shape.dims().begin(), shape.dims().end() - 2));
}

Value with_leading(Value x, const Shape& lead) {
  std::vector<int64_t> dims = lead.dims();
  dims.push_back(x.dim(-2));
  dims.push_back(x.dim(-1));
  return broadcast(x, Shape(std::move(dims)));
}

constexpr OpDef kLinearOps[] = {
    {.name = "linear", .infer = linear_types, .vjp = linear_vjp, .decompose = linear_definition},
    {.name = "linear_input_grad",
     .infer = linear_input_grad_types,
     .vjp = input_grad_vjp,
     .decompose = input_grad_definition},
    {.name = "linear_weight_grad",
     .infer = linear_weight_grad_types,
     .decompose = weight_grad_definition},
    {.name = "dot", .infer = dot_types, .vjp = dot_vjp},
};

} // namespace

namespace ops {
std::span<const OpDef> linear_ops() {
  return kLinearOps;
}
} // namespace ops

Value linear(Value x, Value weight, Value bias, Value scale) {
  std::vector<Value> inputs{x, weight};
  if (bias.defined()) inputs.push_back(bias);
  if (scale.defined()) inputs.push_back(scale);
  return apply("linear", inputs, {{"has_bias", bias.defined()}, {"has_scale", scale.defined()}});
}

Value dot(Value x, Value y) {
  if (x.rank() < 2 || y.rank() < 2 || x.dim(-1) != y.dim(-2)) {
    fail(Code::invalid_argument, "[dot] {} and {} do not multiply", x.type().text(),
         y.type().text());
  }
  const Shape lead = broadcast_shape("dot", {leading(x.shape()), x.dtype(), {}},
                                     {leading(y.shape()), y.dtype(), {}});
  return apply("dot", {with_leading(x, lead), with_leading(y, lead)});
}

} // namespace dllm::graph
