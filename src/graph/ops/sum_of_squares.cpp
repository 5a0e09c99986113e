// sum_of_squares: for gradient norms; partial sums over fixed chunks, added in order.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

#include <numeric>

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::f32});
  return {{Shape{}, DType::f32, {}}};
}

std::vector<Value> vjp(const VjpCall& call) {
  const Value x = call.inputs[0];
  return {multiply(multiply(x, full_like(x, 2)), call.grads[0])};
}

std::vector<Value> plain(Graph&, const Node&, std::span<const Value> inputs) {
  const Value x = inputs[0];
  std::vector<int64_t> axes(static_cast<size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), int64_t{0});
  return {sum(multiply(x, x), axes)};
}

constexpr OpDef kOps[] = {
    {.name = "sum_of_squares", .infer = types, .vjp = vjp, .decompose = plain}};

} // namespace

namespace ops {
std::span<const OpDef> sum_of_squares_ops() {
  return kOps;
}
} // namespace ops

Value sum_of_squares(Value x) {
  return apply("sum_of_squares", {x});
}

} // namespace dllm::graph
