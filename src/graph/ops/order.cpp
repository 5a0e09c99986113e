// Operations that sort or accumulate along an axis.

#include "graph/ops/build.h"

namespace dllm::graph {
namespace {

using namespace ops;

// top_k and sort along the last axis; equal elements keep the order of their indices.

Types top_k_types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::f32});
  const ValueType& x = call.inputs[0];
  const int64_t k = call.attributes.integer("k");
  normal_axis("top_k", x.shape, -1);
  if (k < 1 || k > x.shape.dim(-1))
    fail_op(call, fmt::format("k {} is not in 1..{}", k, x.shape.dim(-1)));
  const Shape shape = x.shape.with_dim(-1, k);
  return {{shape, x.dtype, {}}, {shape, DType::i32, {}}};
}

Types sort_types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::f32, DType::i32});
  const ValueType& x = call.inputs[0];
  normal_axis("sort", x.shape, -1);
  return {{x.shape, x.dtype, {}}, {x.shape, DType::i32, {}}};
}

std::vector<Value> order_vjp(const VjpCall& call) {
  return {scatter_along_last(call.grads[0], call.outputs[1], call.inputs[0].shape())};
}

// argmax: index of the largest element; of equal elements the lowest index.

Types argmax_types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::f32, DType::i32});
  const Shape& shape = call.inputs[0].shape;
  const int64_t axis = normal_axis("argmax", shape, call.attributes.integer("axis"));
  if (shape.dim(axis) == 0)
    fail_op(call, fmt::format("axis {} of {} is empty", axis, call.inputs[0].text()));
  return {{shape.without(axis), DType::i32, {}}};
}

// cumsum: inclusive running sum along one axis.

Types cumsum_types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::f32, DType::i32});
  normal_axis("cumsum", call.inputs[0].shape, call.attributes.integer("axis"));
  return {call.inputs[0]};
}

std::vector<Value> cumsum_vjp(const VjpCall& call) {
  const int64_t axis = call.node.attributes.integer("axis");
  return {reverse(cumsum(reverse(call.grads[0], axis), axis), axis)};
}

constexpr OpDef kOrderOps[] = {
    {.name = "top_k", .infer = top_k_types, .vjp = order_vjp},
    {.name = "sort", .infer = sort_types, .vjp = order_vjp},
    {.name = "argmax", .infer = argmax_types, .stops_gradient = true},
    {.name = "cumsum", .infer = cumsum_types, .vjp = cumsum_vjp},
};

} // namespace

namespace ops {
std::span<const OpDef> order_ops() {
  return kOrderOps;
}
} // namespace ops

TopK top_k(Value x, int64_t k) {
  const auto made = apply_all("top_k", {x}, {{"k", k}});
  return {made[0], made[1]};
}

TopK sort(Value x, bool descending) {
  const auto made = apply_all("sort", {x}, {{"descending", descending}});
  return {made[0], made[1]};
}

Value argmax(Value x, int64_t axis) {
  return apply("argmax", {x}, {{"axis", normal_axis("argmax", x.shape(), axis)}});
}

Value cumsum(Value x, int64_t axis) {
  return apply("cumsum", {x}, {{"axis", normal_axis("cumsum", x.shape(), axis)}});
}

} // namespace dllm::graph
