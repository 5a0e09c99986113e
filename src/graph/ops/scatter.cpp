// scatter_add and scatter_set: rows of the first axis, in the order of the indices; an index
// outside is dropped.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types set_types(const OpCall& call) {
  expect_inputs(call, 3);
  const ValueType& x = call.inputs[0];
  const ValueType& updates = call.inputs[2];
  expect_dtype(call, 1, "indices", {DType::i32});
  expect_rank(call, 1, "indices", 1);
  normal_axis(call.op.name, x.shape, 0);
  const Shape wanted = x.shape.with_dim(0, call.inputs[1].shape.dim(0));
  if (!(updates.shape == wanted) || updates.dtype != x.dtype) {
    fail_op(call, fmt::format("updates {} are no {} rows of {}", updates.text(), wanted.dim(0),
                              x.text()));
  }
  return {x};
}

Types add_types(const OpCall& call) {
  expect_inputs(call, 3);
  expect_dtype(call, 0, "x", {DType::f32, DType::i32});
  return set_types(call);
}

// Rows of g at the indices; zero where `valid` (m) is 0.
Value rows_where(Value g, Value indices, Value valid) {
  const Value rows = take(g, indices);
  std::vector<int64_t> dims(static_cast<size_t>(rows.rank()), 1);
  dims[0] = valid.dim(0);
  return select(broadcast(reshape(valid, Shape(dims)), rows.shape()), rows, full_like(rows, 0));
}

Value in_range(Value indices, int64_t rows) {
  return logical_and(greater_equal(indices, full_like(indices, 0)),
                     less(indices, full_like(indices, static_cast<double>(rows))));
}

std::vector<Value> add_vjp(const VjpCall& call) {
  const Value g = call.grads[0], indices = call.inputs[1];
  return {g, {}, call.wanted[2] ? rows_where(g, indices, in_range(indices, g.dim(0))) : Value{}};
}

// The last update of a row got there: it alone has a gradient, and the row of x below has none.
std::vector<Value> set_vjp(const VjpCall& call) {
  Graph& graph = call.graph;
  const Value g = call.grads[0], indices = call.inputs[1];
  const int64_t m = indices.dim(0);
  std::vector<Value> grads(3);
  if (call.wanted[0]) grads[0] = scatter_set(g, indices, full_like(call.inputs[2], 0));
  if (call.wanted[2]) {
    const Value order = iota(graph, Shape{m}, DType::i32, 0);
    const Value none = broadcast(scalar_i32(graph, -1), Shape{g.dim(0)});
    const Value winner = take(scatter_set(none, indices, order), indices);
    grads[2] =
        rows_where(g, indices, logical_and(equal(winner, order), in_range(indices, g.dim(0))));
  }
  return grads;
}

constexpr OpDef kOps[] = {
    {.name = "scatter_add", .infer = add_types, .vjp = add_vjp},
    {.name = "scatter_set", .infer = set_types, .vjp = set_vjp},
};

} // namespace

namespace ops {
std::span<const OpDef> scatter_ops() {
  return kOps;
}
} // namespace ops

Value scatter_add(Value x, Value indices, Value updates) {
  return apply("scatter_add", {x, indices, updates});
}
Value scatter_set(Value x, Value indices, Value updates) {
  return apply("scatter_set", {x, indices, updates});
}

} // namespace dllm::graph
