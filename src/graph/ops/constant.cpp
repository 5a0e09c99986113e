// Values without operands, and random bits of a key.

#include "graph/ops/build.h"

#include "base/error.h"

namespace dllm::graph {
namespace {

using namespace ops;

// constant, iota, and functions that are built on them.

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

// random_bits: threefry 2x32 of a key. Element i is computed from counter i (partitionable layout).
// With u32(rows, 2) each row of the result has a key of its own, and i counts from 0 in every row.

Types random_bits_types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "key", {DType::u32});
  const Shape shape(call.attributes.list("shape"));
  const bool of_rows = call.inputs[0].shape.rank() == 2 && shape.rank() > 0;
  expect_shape(call, 0, "key", of_rows ? Shape{shape[0], 2} : Shape{2});
  return {{shape, DType::u32, {}}};
}

constexpr OpDef kConstantOps[] = {
    {.name = "constant", .infer = constant_types, .stops_gradient = true, .repeat = Repeat::always},
    {.name = "iota", .infer = iota_types, .stops_gradient = true, .repeat = Repeat::always},
    // Bits are cheaper to draw again than to keep, four bytes for each.
    {.name = "random_bits",
     .infer = random_bits_types,
     .stops_gradient = true,
     .repeat = Repeat::cheap},
};

} // namespace

namespace ops {
std::span<const OpDef> constant_ops() {
  return kConstantOps;
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

Value random_bits(Value key, Shape shape) {
  return apply("random_bits", {key}, {{"shape", shape.dims()}});
}

// The upper 23 bits become the mantissa of a number in [1, 2).
Value random_uniform(Value key, Shape shape) {
  Graph& graph = *key.graph;
  const auto word = [&](uint32_t value) { return constant(graph, Tensor::scalar(value)); };
  const Value mantissa = shift_right_logical(random_bits(key, std::move(shape)), word(9));
  const Value number = bitcast(logical_or(mantissa, word(0x3F800000u)), DType::f32);
  return subtract(number, scalar(graph, 1.0f));
}

} // namespace dllm::graph
