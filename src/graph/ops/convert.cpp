// Conversions of type, and operations that return their input unchanged.

#include "graph/ops/build.h"

namespace dllm::graph {
namespace {

using namespace ops;

// convert: another element type, the numbers rounded or truncated to it. bitcast: another element
// type, the same bits.

Types convert_types(const OpCall& call) {
  expect_inputs(call, 1);
  return {{call.inputs[0].shape, dtype_from_name(call.attributes.text("dtype")), {}}};
}

Types bitcast_types(const OpCall& call) {
  const ValueType result = convert_types(call)[0];
  if (dtype_size(result.dtype) != dtype_size(call.inputs[0].dtype)) {
    fail_op(call, fmt::format("{} and {} differ in size", call.inputs[0].text(),
                              dtype_name(result.dtype)));
  }
  return {result};
}

std::vector<Value> convert_vjp(const VjpCall& call) {
  return {convert(call.grads[0], call.inputs[0].dtype())};
}

// stop_gradient and barrier: return the value. stop_gradient ends gradients, passes keep a barrier.

Types same_types(const OpCall& call) {
  expect_inputs(call, 1);
  return {call.inputs[0]};
}

std::vector<Value> barrier_vjp(const VjpCall& call) {
  return {barrier(call.grads[0])};
}

constexpr OpDef kConvertOps[] = {
    {.name = "convert", .infer = convert_types, .vjp = convert_vjp, .repeat = Repeat::cheap},
    {.name = "bitcast", .infer = bitcast_types, .stops_gradient = true},
    {.name = "stop_gradient", .infer = same_types, .stops_gradient = true},
    {.name = "barrier", .infer = same_types, .vjp = barrier_vjp},
};

} // namespace

namespace ops {
std::span<const OpDef> convert_ops() {
  return kConvertOps;
}
} // namespace ops

Value convert(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return apply("convert", {x}, {{"dtype", std::string(dtype_name(dtype))}});
}

Value bitcast(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return apply("bitcast", {x}, {{"dtype", std::string(dtype_name(dtype))}});
}

Value stop_gradient(Value x) {
  return apply("stop_gradient", {x});
}
Value barrier(Value x) {
  return apply("barrier", {x});
}

} // namespace dllm::graph
