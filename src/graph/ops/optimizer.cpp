// Operations that optimizers use.

#include "graph/ops/build.h"

#include <numeric>

namespace dllm::graph {
namespace {

using namespace ops;

// adamw_update: one step of AdamW (Loshchilov & Hutter 2019) on one parameter.

Types adamw_update_types(const OpCall& call) {
  expect_inputs(call, 5);
  const char* const names[] = {"parameter", "gradient", "first", "second", "scalars"};
  for (size_t i = 0; i < 5; ++i) expect_dtype(call, i, names[i], {DType::f32});
  for (size_t i = 1; i < 4; ++i) expect_shape(call, i, names[i], call.inputs[0].shape);
  expect_shape(call, 4, "scalars", Shape{8});
  return {call.inputs[0], call.inputs[0], call.inputs[0]};
}

std::vector<Value> adamw_update_definition(Graph&, const Node& node,
                                           std::span<const Value> inputs) {
  const Value p = inputs[0];
  const auto spread = [&](int64_t i) {
    return broadcast(reshape(slice(inputs[4], {i}, {i + 1}), Shape{}), p.shape());
  };
  const Value one = full_like(p, 1), b1 = spread(1), b2 = spread(2);
  // With scale 0 the gradient is not used, because 0 times NaN would be NaN.
  const Value scale = spread(7);
  const Value g =
      select(equal(scale, full_like(scale, 0)), full_like(p, 0), multiply(inputs[1], scale));
  const Value first = add(multiply(b1, inputs[2]), multiply(subtract(one, b1), g));
  const Value second = add(multiply(b2, inputs[3]), multiply(subtract(one, b2), multiply(g, g)));
  Value move = divide(divide(first, spread(5)), add(sqrt(divide(second, spread(6))), spread(3)));
  if (node.attributes.flag("decay")) move = add(move, multiply(spread(4), p));
  return {subtract(p, multiply(spread(0), move)), first, second};
}

// sum_of_squares, for gradient norms: partial sums over fixed chunks, added in order.

Types sum_of_squares_types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::f32});
  return {{Shape{}, DType::f32, {}}};
}

std::vector<Value> sum_of_squares_vjp(const VjpCall& call) {
  const Value x = call.inputs[0];
  return {multiply(multiply(x, full_like(x, 2)), call.grads[0])};
}

std::vector<Value> sum_of_squares_definition(Graph&, const Node&, std::span<const Value> inputs) {
  const Value x = inputs[0];
  std::vector<int64_t> axes(static_cast<size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return {sum(multiply(x, x), axes)};
}

constexpr OpDef kOptimizerOps[] = {
    {.name = "adamw_update", .infer = adamw_update_types, .decompose = adamw_update_definition},
    {.name = "sum_of_squares",
     .infer = sum_of_squares_types,
     .vjp = sum_of_squares_vjp,
     .decompose = sum_of_squares_definition},
};

} // namespace

namespace ops {
std::span<const OpDef> optimizer_ops() {
  return kOptimizerOps;
}
} // namespace ops

AdamW adamw_update(Value parameter, Value gradient, Value first, Value second, Value scalars,
                   bool decay) {
  const auto made =
      apply_all("adamw_update", {parameter, gradient, first, second, scalars}, {{"decay", decay}});
  return {made[0], made[1], made[2]};
}

Value sum_of_squares(Value x) {
  return apply("sum_of_squares", {x});
}

} // namespace dllm::graph
