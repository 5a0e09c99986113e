// rms_norm: y = x r weight, r = 1 / sqrt(mean(x^2) + eps), over the last axis (Zhang & Sennrich
// 2019).

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

namespace dllm::graph {
namespace {

using namespace ops;

ValueType expect_operands(const OpCall& call, size_t tensors) {
  const bool has_weight = call.attributes.flag("has_weight");
  expect_inputs(call, tensors + (has_weight ? 1 : 0));
  const ValueType& x = call.inputs[0];
  expect_dtype(call, 0, "x", {DType::f32});
  const int64_t n = x.shape.dim(normal_axis(call.op.name, x.shape, -1));
  if (has_weight) {
    expect_dtype(call, tensors, "weight", {DType::f32});
    expect_shape(call, tensors, "weight", Shape{n});
  }
  return x;
}

Types types(const OpCall& call) {
  return {expect_operands(call, 1)};
}

Types grad_types(const OpCall& call) {
  const ValueType x = expect_operands(call, 2);
  expect_dtype(call, 1, "dy", {DType::f32});
  expect_shape(call, 1, "dy", x.shape);
  if (!call.attributes.flag("has_weight")) return {x};
  return {x, {Shape{x.shape.dim(-1)}, DType::f32, {}}};
}

std::vector<Value> vjp(const VjpCall& call) {
  std::vector<Value> inputs{call.inputs[0], call.grads[0]};
  if (call.inputs.size() > 1) inputs.push_back(call.inputs[1]);
  return apply_all("rms_norm_grad", inputs, call.node.attributes);
}

// r, with the last axis kept at extent 1
Value inverse_rms(Value x, double eps) {
  const Value square = mean(multiply(x, x), {-1}, true);
  return rsqrt(add(square, full_like(square, eps)));
}

std::vector<Value> plain(Graph&, const Node& node, std::span<const Value> inputs) {
  const Value x = inputs[0];
  const Value y = multiply(x, inverse_rms(x, node.attributes.number("eps")));
  return {inputs.size() > 1 ? multiply(y, inputs[1]) : y};
}

// dx = r (d - xhat mean(d xhat)) with xhat = x r, d = dy weight; dweight = sum of dy xhat over the
// rows
std::vector<Value> grad_plain(Graph&, const Node& node, std::span<const Value> inputs) {
  const Value x = inputs[0], dy = inputs[1];
  const Value r = inverse_rms(x, node.attributes.number("eps"));
  const Value normal = multiply(x, r);
  const Value d = inputs.size() > 2 ? multiply(dy, inputs[2]) : dy;
  const Value along = mean(multiply(d, normal), {-1}, true);
  const Value dx = multiply(r, subtract(d, multiply(normal, along)));
  if (inputs.size() < 3) return {dx};
  return {dx, sum(as_rows(multiply(dy, normal)), {0})};
}

constexpr OpDef kOps[] = {
    {.name = "rms_norm", .infer = types, .vjp = vjp, .decompose = plain},
    {.name = "rms_norm_grad", .infer = grad_types, .decompose = grad_plain},
};

} // namespace

namespace ops {
std::span<const OpDef> rms_norm_ops() {
  return kOps;
}
} // namespace ops

Value rms_norm(Value x, Value weight, float eps) {
  std::vector<Value> inputs{x};
  if (weight.defined()) inputs.push_back(weight);
  return apply("rms_norm", inputs,
               {{"eps", static_cast<double>(eps)}, {"has_weight", weight.defined()}});
}

} // namespace dllm::graph
