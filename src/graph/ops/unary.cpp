// Elementwise functions of one value. They share one shape rule; each has one row of the table. g:
// gradient of the result y = f(x).

#include "graph/ops/build.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types unary_float_types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::f32});
  return {call.inputs[0]};
}

Types unary_number_types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::f32, DType::i32});
  return {call.inputs[0]};
}

Types finite_types(const OpCall& call) {
  unary_float_types(call);
  return {{call.inputs[0].shape, DType::u8, {}}};
}

Types not_types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::u8});
  return {call.inputs[0]};
}

using Rule = Value (*)(Value g, Value x, Value y);
template <Rule rule> std::vector<Value> unary_vjp(const VjpCall& call) {
  return {rule(call.grads[0], call.inputs[0], call.outputs[0])};
}

Value times(Value x, double factor) {
  return multiply(x, full_like(x, factor));
}
Value plus(Value x, double term) {
  return add(x, full_like(x, term));
}

constexpr double kSqrtPi = 1.7724538509055160273;

Value d_negate(Value g, Value, Value) {
  return negate(g);
}
Value d_absolute(Value g, Value x, Value) {
  return multiply(g, sign(x));
}
Value d_exp(Value g, Value, Value y) {
  return multiply(g, y);
}
Value d_expm1(Value g, Value, Value y) {
  return multiply(g, plus(y, 1));
}
Value d_log(Value g, Value x, Value) {
  return divide(g, x);
}
Value d_log1p(Value g, Value x, Value) {
  return divide(g, plus(x, 1));
}
Value d_tanh(Value g, Value, Value y) {
  return multiply(g, subtract(full_like(y, 1), multiply(y, y)));
}
Value d_logistic(Value g, Value, Value y) {
  return multiply(g, multiply(y, subtract(full_like(y, 1), y)));
}
Value d_sqrt(Value g, Value, Value y) {
  return divide(times(g, 0.5), y);
}
Value d_rsqrt(Value g, Value, Value y) {
  return multiply(times(g, -0.5), multiply(y, multiply(y, y)));
}
Value d_sin(Value g, Value x, Value) {
  return multiply(g, cos(x));
}
Value d_cos(Value g, Value x, Value) {
  return negate(multiply(g, sin(x)));
}
Value d_erf(Value g, Value x, Value) {
  return multiply(times(g, 2 / kSqrtPi), exp(negate(multiply(x, x))));
}
Value d_erf_inv(Value g, Value, Value y) {
  return multiply(times(g, kSqrtPi / 2), exp(multiply(y, y)));
}

constexpr OpDef kUnaryOps[] = {
    {.name = "negate",
     .infer = unary_number_types,
     .vjp = unary_vjp<d_negate>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "absolute",
     .infer = unary_number_types,
     .vjp = unary_vjp<d_absolute>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "sign",
     .infer = unary_number_types,
     .stops_gradient = true,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "exp",
     .infer = unary_float_types,
     .vjp = unary_vjp<d_exp>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "expm1",
     .infer = unary_float_types,
     .vjp = unary_vjp<d_expm1>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "log",
     .infer = unary_float_types,
     .vjp = unary_vjp<d_log>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "log1p",
     .infer = unary_float_types,
     .vjp = unary_vjp<d_log1p>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "tanh",
     .infer = unary_float_types,
     .vjp = unary_vjp<d_tanh>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "logistic",
     .infer = unary_float_types,
     .vjp = unary_vjp<d_logistic>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "sqrt",
     .infer = unary_float_types,
     .vjp = unary_vjp<d_sqrt>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "rsqrt",
     .infer = unary_float_types,
     .vjp = unary_vjp<d_rsqrt>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "sin",
     .infer = unary_float_types,
     .vjp = unary_vjp<d_sin>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "cos",
     .infer = unary_float_types,
     .vjp = unary_vjp<d_cos>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "erf",
     .infer = unary_float_types,
     .vjp = unary_vjp<d_erf>,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "erf_inv",
     .infer = unary_float_types,
     .vjp = unary_vjp<d_erf_inv>,
     .is_elementwise = true},
    {.name = "floor",
     .infer = unary_float_types,
     .stops_gradient = true,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "round",
     .infer = unary_float_types,
     .stops_gradient = true,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "is_finite", .infer = finite_types, .stops_gradient = true, .repeat = Repeat::cheap},
    {.name = "logical_not", .infer = not_types, .stops_gradient = true, .repeat = Repeat::cheap},
};

} // namespace

namespace ops {
std::span<const OpDef> unary_ops() {
  return kUnaryOps;
}
} // namespace ops

Value negate(Value x) {
  return apply("negate", {x});
}
Value absolute(Value x) {
  return apply("absolute", {x});
}
Value sign(Value x) {
  return apply("sign", {x});
}
Value exp(Value x) {
  return apply("exp", {x});
}
Value expm1(Value x) {
  return apply("expm1", {x});
}
Value log(Value x) {
  return apply("log", {x});
}
Value log1p(Value x) {
  return apply("log1p", {x});
}
Value tanh(Value x) {
  return apply("tanh", {x});
}
Value logistic(Value x) {
  return apply("logistic", {x});
}
Value sqrt(Value x) {
  return apply("sqrt", {x});
}
Value rsqrt(Value x) {
  return apply("rsqrt", {x});
}
Value sin(Value x) {
  return apply("sin", {x});
}
Value cos(Value x) {
  return apply("cos", {x});
}
Value erf(Value x) {
  return apply("erf", {x});
}
Value erf_inv(Value x) {
  return apply("erf_inv", {x});
}
Value floor(Value x) {
  return apply("floor", {x});
}
Value round(Value x) {
  return apply("round", {x});
}
Value is_finite(Value x) {
  return apply("is_finite", {x});
}
Value logical_not(Value x) {
  return apply("logical_not", {x});
}

} // namespace dllm::graph
