// cumsum: inclusive running sum along one axis.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::f32, DType::i32});
  normal_axis("cumsum", call.inputs[0].shape, call.attributes.integer("axis"));
  return {call.inputs[0]};
}

std::vector<Value> vjp(const VjpCall& call) {
  const int64_t axis = call.node.attributes.integer("axis");
  return {reverse(cumsum(reverse(call.grads[0], axis), axis), axis)};
}

constexpr OpDef kOps[] = {{.name = "cumsum", .infer = types, .vjp = vjp}};

} // namespace

namespace ops {
std::span<const OpDef> cumsum_ops() {
  return kOps;
}
} // namespace ops

Value cumsum(Value x, int64_t axis) {
  return apply("cumsum", {x}, {{"axis", normal_axis("cumsum", x.shape(), axis)}});
}

} // namespace dllm::graph
