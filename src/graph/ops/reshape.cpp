// reshape: the same elements in another shape.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
  expect_inputs(call, 1);
  const ValueType& x = call.inputs[0];
  const Shape wanted(call.attributes.list("shape"));
  if (wanted.count() != x.shape.count()) {
    fail_op(call, fmt::format("{} has {} elements, {} has {}", x.text(), x.shape.count(),
                              wanted.text(), wanted.count()));
  }
  return {{wanted, x.dtype, {}}};
}

std::vector<Value> vjp(const VjpCall& call) {
  return {reshape(call.grads[0], call.inputs[0].shape())};
}

constexpr OpDef kOps[] = {{.name = "reshape", .infer = types, .vjp = vjp}};

} // namespace

namespace ops {
std::span<const OpDef> reshape_ops() {
  return kOps;
}
} // namespace ops

Value reshape(Value x, Shape shape) {
  if (x.shape() == shape) return x;
  return apply("reshape", {x}, {{"shape", shape.dims()}});
}

} // namespace dllm::graph
