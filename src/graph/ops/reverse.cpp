// reverse: the order along one axis turned round.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
  expect_inputs(call, 1);
  normal_axis("reverse", call.inputs[0].shape, call.attributes.integer("axis"));
  return {call.inputs[0]};
}

std::vector<Value> vjp(const VjpCall& call) {
  return {reverse(call.grads[0], call.node.attributes.integer("axis"))};
}

constexpr OpDef kOps[] = {{.name = "reverse", .infer = types, .vjp = vjp}};

} // namespace

namespace ops {
std::span<const OpDef> reverse_ops() {
  return kOps;
}
} // namespace ops

Value reverse(Value x, int64_t axis) {
  return apply("reverse", {x}, {{"axis", normal_axis("reverse", x.shape(), axis)}});
}

} // namespace dllm::graph
