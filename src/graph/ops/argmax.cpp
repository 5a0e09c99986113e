// argmax: place of the largest element, the lowest index wins.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::f32, DType::i32});
  const Shape& shape = call.inputs[0].shape;
  const int64_t axis = normal_axis("argmax", shape, call.attributes.integer("axis"));
  if (shape.dim(axis) == 0)
    fail_op(call, fmt::format("axis {} of {} is empty", axis, call.inputs[0].text()));
  return {{shape.without(axis), DType::i32, {}}};
}

constexpr OpDef kOps[] = {{.name = "argmax", .infer = types, .stops_gradient = true}};

} // namespace

namespace ops {
std::span<const OpDef> argmax_ops() {
  return kOps;
}
} // namespace ops

Value argmax(Value x, int64_t axis) {
  return apply("argmax", {x}, {{"axis", normal_axis("argmax", x.shape(), axis)}});
}

} // namespace dllm::graph
