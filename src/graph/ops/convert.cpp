// convert: another element type, value kept as far as it can be; bitcast: another type, bits kept.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

namespace dllm::graph {
namespace {

using namespace ops;

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

std::vector<Value> vjp(const VjpCall& call) {
  return {convert(call.grads[0], call.inputs[0].dtype())};
}

constexpr OpDef kOps[] = {
    {.name = "convert", .infer = convert_types, .vjp = vjp},
    {.name = "bitcast", .infer = bitcast_types, .stops_gradient = true},
};

} // namespace

namespace ops {
std::span<const OpDef> convert_ops() {
  return kOps;
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

} // namespace dllm::graph
