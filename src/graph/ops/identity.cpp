// stop_gradient and barrier: the value itself, with another meaning to gradients and passes.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
  expect_inputs(call, 1);
  return {call.inputs[0]};
}

std::vector<Value> barrier_vjp(const VjpCall& call) {
  return {barrier(call.grads[0])};
}

constexpr OpDef kOps[] = {
    {.name = "stop_gradient", .infer = types, .stops_gradient = true},
    {.name = "barrier", .infer = types, .vjp = barrier_vjp},
};

} // namespace

namespace ops {
std::span<const OpDef> identity_ops() {
  return kOps;
}
} // namespace ops

Value stop_gradient(Value x) {
  return apply("stop_gradient", {x});
}
Value barrier(Value x) {
  return apply("barrier", {x});
}

} // namespace dllm::graph
