// Functions that are composed of other operations.

#include "graph/ops/build.h"

namespace dllm::graph {

using namespace ops;

Value softcap(Value x, float cap) {
  if (cap == 0.0f) return x;
  const Value most = full_like(x, static_cast<double>(cap));
  return multiply(most, tanh(divide(x, most)));
}

Value softmax(Value x, int64_t axis) {
  const Value top = stop_gradient(max(x, {axis}, true));
  const Value weight = exp(subtract(x, top));
  return divide(weight, sum(weight, {axis}, true));
}

Value log_softmax(Value x, int64_t axis) {
  const Value shifted = subtract(x, stop_gradient(max(x, {axis}, true)));
  return subtract(shifted, log(sum(exp(shifted), {axis}, true)));
}

// log sum exp(x) = top + log sum exp(x - top). The gradients through top cancel.
Value log_sum_exp(Value x, int64_t axis, AxisSet over) {
  axis = normal_axis("log_sum_exp", x.shape(), axis);
  const Value top = stop_gradient(all_reduce_max(max(x, {axis}), over));
  const Value spread = broadcast(reshape(top, x.shape().with_dim(axis, 1)), x.shape());
  const Value total = all_reduce(sum(exp(subtract(x, spread)), {axis}), over);
  return add(top, log(total));
}

// log(1 + e^x) = max(x, 0) + log1p(e^-|x|), without overflow.
Value softplus(Value x) {
  return add(maximum(x, full_like(x, 0)), log1p(exp(negate(absolute(x)))));
}

Value silu(Value x) {
  return multiply(x, logistic(x));
}

Value gelu(Value x, bool tanh_form) {
  const Value half = multiply(x, full_like(x, 0.5));
  const Value one = full_like(x, 1);
  if (!tanh_form) {
    constexpr double kInverseSqrt2 = 0.70710678118654752440;
    return multiply(half, add(one, erf(multiply(x, full_like(x, kInverseSqrt2)))));
  }
  // Hendrycks & Gimpel 2016: sqrt(2 / pi) (x + 0.044715 x^3)
  constexpr double kSqrt2OverPi = 0.79788456080286535588;
  const Value cubic = multiply(multiply(x, multiply(x, x)), full_like(x, 0.044715));
  return multiply(half, add(one, tanh(multiply(add(x, cubic), full_like(x, kSqrt2OverPi)))));
}

Value mean(Value x, std::vector<int64_t> axes, bool keep) {
  int64_t count = 1;
  for (int64_t axis : axes) count *= x.dim(axis);
  const Value total = sum(x, std::move(axes), keep);
  return multiply(total, full_like(total, 1.0 / static_cast<double>(count)));
}

} // namespace dllm::graph
