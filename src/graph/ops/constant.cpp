// constant, iota, and the values made of them.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types constant_types(const OpCall& call) {
  expect_inputs(call, 0);
  if (!call.literal.defined()) fail_op(call, "has no literal");
  return {{call.literal.shape(), call.literal.dtype(), {}}};
}

Types iota_types(const OpCall& call) {
  expect_inputs(call, 0);
  const Shape shape(call.attributes.list("shape"));
  normal_axis("iota", shape, call.attributes.integer("axis"));
  const DType dtype = dtype_from_name(call.attributes.text("dtype"));
  if (dtype != DType::f32 && dtype != DType::i32 && dtype != DType::u32) {
    fail_op(call, fmt::format("makes f32, i32 or u32, not {}", dtype_name(dtype)));
  }
  return {{shape, dtype, {}}};
}

constexpr OpDef kOps[] = {
    {.name = "constant", .infer = constant_types, .stops_gradient = true},
    {.name = "iota", .infer = iota_types, .stops_gradient = true},
};

} // namespace

namespace ops {
std::span<const OpDef> constant_ops() {
  return kOps;
}
} // namespace ops

Value constant(Graph& graph, Tensor literal) {
  return graph.add(find_op("constant"), {}, {}, {}, std::move(literal))[0];
}

Value scalar(Graph& graph, float value) {
  return constant(graph, Tensor::scalar(value));
}
Value scalar_i32(Graph& graph, int32_t value) {
  return constant(graph, Tensor::scalar(value));
}
Value full(Graph& graph, Shape shape, float value) {
  return broadcast(scalar(graph, value), std::move(shape));
}

Value iota(Graph& graph, Shape shape, DType dtype, int64_t axis) {
  axis = normal_axis("iota", shape, axis);
  return graph.add(
      find_op("iota"), {},
      {{"shape", shape.dims()}, {"dtype", std::string(dtype_name(dtype))}, {"axis", axis}})[0];
}

} // namespace dllm::graph
