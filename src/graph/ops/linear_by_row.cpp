// linear_by_row: y[r] = x[r] weight_i^T for i = choice[r], with one operand for each of several
// matrices. Rows whose choice is none of them are 0. Requests of one pass have adapters of their
// own by it. The choice is data, so one program serves any rows.

#include "graph/ops/build.h"

namespace dllm::graph {
namespace {

using namespace ops;

constexpr size_t kFirstWeight = 2;

Types linear_by_row_types(const OpCall& call) {
  if (call.inputs.size() <= kFirstWeight) fail_op(call, "has no weights");
  expect_dtype(call, 0, "x", {DType::f32});
  expect_rank(call, 0, "x", 2);
  expect_dtype(call, 1, "choice", {DType::i32});
  const int64_t rows = call.inputs[0].shape.dim(0), in = call.inputs[0].shape.dim(1);
  expect_shape(call, 1, "choice", Shape{rows});
  const int64_t out = expect_weight(call, kFirstWeight, 2, -1).dim(0);
  for (size_t i = kFirstWeight; i < call.inputs.size(); ++i) {
    if (!(expect_weight(call, i, 2, -1) == Shape{out, in}))
      fail_op(call, types_text(call.inputs) + " do not have weights of one shape for x");
  }
  return {{Shape{rows, out}, DType::f32, {}}};
}

// Every matrix multiplies all rows.
std::vector<Value> linear_by_row_definition(Graph& graph, const Node&,
                                            std::span<const Value> inputs) {
  const Value x = inputs[0], choice = reshape(inputs[1], Shape{inputs[1].dim(0), 1});
  Value y;
  for (size_t i = kFirstWeight; i < inputs.size(); ++i) {
    const Value made = linear(x, inputs[i]);
    const Value own = equal(choice, scalar_i32(graph, static_cast<int32_t>(i - kFirstWeight)));
    const Value other = y.defined() ? y : full_like(made, 0);
    y = select(broadcast(own, made.shape()), made, other);
  }
  return {y};
}

constexpr OpDef kLinearByRowOps[] = {
    {.name = "linear_by_row", .infer = linear_by_row_types, .decompose = linear_by_row_definition}};

} // namespace

namespace ops {
std::span<const OpDef> linear_by_row_ops() {
  return kLinearByRowOps;
}
} // namespace ops

Value linear_by_row(Value x, Value choice, const std::vector<Value>& weights) {
  std::vector<Value> inputs{x, choice};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  return ops::apply("linear_by_row", inputs);
}

} // namespace dllm::graph
