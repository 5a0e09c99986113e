// Normalization over the last axis.

#include "graph/ops/build.h"

namespace dllm::graph {
namespace {

using namespace ops;

// rms_norm: y = x r weight, r = 1 / sqrt(mean(x^2) + eps), over the last axis (Zhang & Sennrich
// 2019).

ValueType expect_norm_operands(const OpCall& call, size_t tensors) {
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

Types rms_norm_types(const OpCall& call) {
  return {expect_norm_operands(call, 1)};
}

Types rms_norm_grad_types(const OpCall& call) {
  const ValueType x = expect_norm_operands(call, 2);
  expect_dtype(call, 1, "dy", {DType::f32});
  expect_shape(call, 1, "dy", x.shape);
  if (!call.attributes.flag("has_weight")) return {x};
  return {x, {Shape{x.shape.dim(-1)}, DType::f32, {}}};
}

std::vector<Value> rms_norm_vjp(const VjpCall& call) {
  std::vector<Value> inputs{call.inputs[0], call.grads[0]};
  if (call.inputs.size() > 1) inputs.push_back(call.inputs[1]);
  return apply_all("rms_norm_grad", inputs, call.node.attributes);
}

// Returns r with extent 1 along the last axis.
Value inverse_rms(Value x, double eps) {
  const Value square = mean(multiply(x, x), {-1}, true);
  return rsqrt(add(square, full_like(square, eps)));
}

std::vector<Value> rms_norm_definition(Graph&, const Node& node, std::span<const Value> inputs) {
  const Value x = inputs[0];
  const Value y = multiply(x, inverse_rms(x, node.attributes.number("eps")));
  return {inputs.size() > 1 ? multiply(y, inputs[1]) : y};
}

// dx = r (d - xhat mean(d xhat)) with xhat = x r, d = dy weight;
// dweight = sum of dy xhat over the rows
std::vector<Value> rms_norm_grad_definition(Graph&, const Node& node,
                                            std::span<const Value> inputs) {
  const Value x = inputs[0], dy = inputs[1];
  const Value r = inverse_rms(x, node.attributes.number("eps"));
  const Value normal = multiply(x, r);
  const Value d = inputs.size() > 2 ? multiply(dy, inputs[2]) : dy;
  const Value along = mean(multiply(d, normal), {-1}, true);
  const Value dx = multiply(r, subtract(d, multiply(normal, along)));
  if (inputs.size() < 3) return {dx};
  return {dx, sum(as_rows(multiply(dy, normal)), {0})};
}

// layer_norm: y = xhat weight + bias, xhat = (x - mean) / sqrt(variance + eps), over the last axis.

struct NormOperands {
  int weight, bias, count;
};

NormOperands layer_norm_operands(const Attributes& attributes, int tensors, bool with_bias) {
  OperandOrder order(tensors);
  NormOperands at{};
  at.weight = order.take(attributes.flag("has_weight"));
  at.bias = order.take(with_bias && attributes.flag("has_bias"));
  at.count = order.count();
  return at;
}

void expect_row(const OpCall& call, int index, const char* what) {
  if (index < 0) return;
  expect_dtype(call, static_cast<size_t>(index), what, {DType::f32});
  expect_shape(call, static_cast<size_t>(index), what, Shape{call.inputs[0].shape.dim(-1)});
}

Types layer_norm_types(const OpCall& call) {
  const NormOperands at = layer_norm_operands(call.attributes, 1, true);
  expect_inputs(call, static_cast<size_t>(at.count));
  expect_dtype(call, 0, "x", {DType::f32});
  normal_axis("layer_norm", call.inputs[0].shape, -1);
  expect_row(call, at.weight, "weight");
  expect_row(call, at.bias, "bias");
  return {call.inputs[0]};
}

Types layer_norm_grad_types(const OpCall& call) {
  const NormOperands at = layer_norm_operands(call.attributes, 2, false);
  expect_inputs(call, static_cast<size_t>(at.count));
  const ValueType& x = call.inputs[0];
  expect_dtype(call, 0, "x", {DType::f32});
  normal_axis("layer_norm_grad", x.shape, -1);
  expect_dtype(call, 1, "dy", {DType::f32});
  expect_shape(call, 1, "dy", x.shape);
  expect_row(call, at.weight, "weight");
  const ValueType row{Shape{x.shape.dim(-1)}, DType::f32, {}};
  Types results{x};
  if (call.attributes.flag("has_weight")) results.push_back(row);
  if (call.attributes.flag("has_bias")) results.push_back(row);
  return results;
}

std::vector<Value> layer_norm_vjp(const VjpCall& call) {
  const NormOperands at = layer_norm_operands(call.node.attributes, 1, true);
  std::vector<Value> inputs{call.inputs[0], call.grads[0]};
  if (at.weight >= 0) inputs.push_back(call.inputs[static_cast<size_t>(at.weight)]);
  return apply_all("layer_norm_grad", inputs, call.node.attributes);
}

struct Normal {
  Value xhat, r;
};

Normal normalize(Value x, double eps) {
  const Value centred = subtract(x, mean(x, {-1}, true));
  const Value variance = mean(multiply(centred, centred), {-1}, true);
  const Value r = rsqrt(add(variance, full_like(variance, eps)));
  return {multiply(centred, r), r};
}

std::vector<Value> layer_norm_definition(Graph&, const Node& node, std::span<const Value> inputs) {
  const NormOperands at = layer_norm_operands(node.attributes, 1, true);
  Value y = normalize(inputs[0], node.attributes.number("eps")).xhat;
  if (at.weight >= 0) y = multiply(y, inputs[static_cast<size_t>(at.weight)]);
  if (at.bias >= 0) y = add(y, inputs[static_cast<size_t>(at.bias)]);
  return {y};
}

// dx = r (d - mean(d) - xhat mean(d xhat)) with d = dy weight
std::vector<Value> layer_norm_grad_definition(Graph&, const Node& node,
                                              std::span<const Value> inputs) {
  const NormOperands at = layer_norm_operands(node.attributes, 2, false);
  const Value dy = inputs[1];
  const auto [xhat, r] = normalize(inputs[0], node.attributes.number("eps"));
  const Value d = at.weight >= 0 ? multiply(dy, inputs[static_cast<size_t>(at.weight)]) : dy;
  const Value along = multiply(xhat, mean(multiply(d, xhat), {-1}, true));
  std::vector<Value> results{multiply(r, subtract(subtract(d, mean(d, {-1}, true)), along))};
  if (node.attributes.flag("has_weight")) results.push_back(sum(as_rows(multiply(dy, xhat)), {0}));
  if (node.attributes.flag("has_bias")) results.push_back(sum(as_rows(dy), {0}));
  return results;
}

constexpr OpDef kNormOps[] = {
    {.name = "rms_norm",
     .infer = rms_norm_types,
     .vjp = rms_norm_vjp,
     .decompose = rms_norm_definition,
     .repeat = Repeat::cheap},
    {.name = "rms_norm_grad", .infer = rms_norm_grad_types, .decompose = rms_norm_grad_definition},
    {.name = "layer_norm",
     .infer = layer_norm_types,
     .vjp = layer_norm_vjp,
     .decompose = layer_norm_definition,
     .repeat = Repeat::cheap},
    {.name = "layer_norm_grad",
     .infer = layer_norm_grad_types,
     .decompose = layer_norm_grad_definition},
};

} // namespace

namespace ops {
std::span<const OpDef> norm_ops() {
  return kNormOps;
}
} // namespace ops

Value rms_norm(Value x, Value weight, float eps) {
  std::vector<Value> inputs{x};
  if (weight.defined()) inputs.push_back(weight);
  return apply("rms_norm", inputs,
               {{"eps", static_cast<double>(eps)}, {"has_weight", weight.defined()}});
}

Value layer_norm(Value x, Value weight, Value bias, float eps) {
  std::vector<Value> inputs{x};
  if (weight.defined()) inputs.push_back(weight);
  if (bias.defined()) inputs.push_back(bias);
  return apply("layer_norm", inputs,
               {{"eps", static_cast<double>(eps)},
                {"has_weight", weight.defined()},
                {"has_bias", bias.defined()}});
}

} // namespace dllm::graph
