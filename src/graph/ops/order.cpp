// top_k and sort along the last axis; equal elements keep the order of their indices.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

namespace dllm::graph {
namespace {

using namespace ops;

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

std::vector<Value> vjp(const VjpCall& call) {
  return {scatter_along_last(call.grads[0], call.outputs[1], call.inputs[0].shape())};
}

constexpr OpDef kOps[] = {
    {.name = "top_k", .infer = top_k_types, .vjp = vjp},
    {.name = "sort", .infer = sort_types, .vjp = vjp},
};

} // namespace

namespace ops {
std::span<const OpDef> order_ops() {
  return kOps;
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

} // namespace dllm::graph
