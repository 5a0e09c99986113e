// random_bits: threefry 2x32 of a key, element i from counter i (partitionable layout).

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

#include "base/error.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "key", {DType::u32});
  expect_shape(call, 0, "key", Shape{2});
  return {{Shape(call.attributes.list("shape")), DType::u32, {}}};
}

constexpr OpDef kOps[] = {{.name = "random_bits", .infer = types, .stops_gradient = true}};

} // namespace

namespace ops {
std::span<const OpDef> random_bits_ops() {
  return kOps;
}
} // namespace ops

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
