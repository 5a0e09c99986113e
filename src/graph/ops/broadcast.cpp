// broadcast: numpy rules, trailing axes align and extent 1 repeats.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
  expect_inputs(call, 1);
  const ValueType& x = call.inputs[0];
  const Shape wanted(call.attributes.list("shape"));
  bool fits = x.shape.rank() <= wanted.rank();
  for (int64_t i = 1; fits && i <= x.shape.rank(); ++i) {
    fits = x.shape.dim(-i) == wanted.dim(-i) || x.shape.dim(-i) == 1;
  }
  if (!fits) fail_op(call, x.text() + " does not broadcast to " + wanted.text());
  return {{wanted, x.dtype, {}}};
}

std::vector<Value> vjp(const VjpCall& call) {
  return {sum_to(call.grads[0], call.inputs[0].shape())};
}

constexpr OpDef kOps[] = {{.name = "broadcast", .infer = types, .vjp = vjp}};

} // namespace

namespace ops {
std::span<const OpDef> broadcast_ops() {
  return kOps;
}
} // namespace ops

Value broadcast(Value x, Shape shape) {
  if (x.shape() == shape) return x;
  return apply("broadcast", {x}, {{"shape", shape.dims()}});
}

} // namespace dllm::graph
