// Operations that read and write rows and elements by index.

#include "graph/ops/build.h"

#include "base/error.h"

#include <numeric>

namespace dllm::graph {
namespace {

using namespace ops;

// take: rows of a table by index. take_along: elements along one axis by index.

Types take_types(const OpCall& call) {
  const bool has_scale = call.attributes.flag("has_scale");
  expect_inputs(call, has_scale ? 3 : 2);
  expect_dtype(call, 1, "indices", {DType::i32});
  const ValueType& table = call.inputs[0];
  if (table.shape.rank() == 0 || table.shape.dim(0) == 0)
    fail_op(call, "table " + table.text() + " has no rows");
  if (has_scale != (table.dtype == DType::i8)) {
    fail_op(call,
            fmt::format("table {} {} a scale", table.text(), has_scale ? "cannot have" : "needs"));
  }
  if (has_scale) {
    expect_dtype(call, 2, "scale", {DType::f32});
    expect_shape(call, 2, "scale", Shape{table.shape.dim(0)});
  }
  std::vector<int64_t> dims = call.inputs[1].shape.dims();
  if (table.format != nullptr) expect_rank(call, 0, "table", 2);
  const Shape numbers = table.numbers();
  dims.insert(dims.end(), numbers.dims().begin() + 1, numbers.dims().end());
  const bool widened =
      table.dtype == DType::bf16 || table.dtype == DType::i8 || table.format != nullptr;
  return {{Shape(std::move(dims)), widened ? DType::f32 : table.dtype, {}}};
}

Value clamp_rows(Value indices, int64_t rows) {
  return clamp(full_like(indices, 0), indices, full_like(indices, static_cast<double>(rows - 1)));
}

std::vector<Value> take_vjp(const VjpCall& call) {
  const Value table = call.inputs[0], indices = call.inputs[1], g = call.grads[0];
  std::vector<Value> grads(call.inputs.size());
  if (call.inputs.size() > 2 && call.wanted[2])
    fail(Code::unimplemented, "[take] scale has no gradient");
  if (!call.wanted[0]) return grads;
  if (table.dtype() == DType::i8 || table.type().format != nullptr) {
    fail(Code::unimplemented, "[take] table {} has no gradient", table.type().text());
  }
  const int64_t m = indices.shape().count();
  std::vector<int64_t> row{m};
  row.insert(row.end(), table.shape().dims().begin() + 1, table.shape().dims().end());
  const Value at = reshape(clamp_rows(indices, table.dim(0)), Shape{m});
  const Value zeros = zeros_of(call.graph, {table.shape(), DType::f32, {}});
  grads[0] = scatter_add(zeros, at, reshape(convert(g, DType::f32), Shape(row)));
  return grads;
}

Types along_types(const OpCall& call) {
  expect_inputs(call, 2);
  expect_dtype(call, 1, "indices", {DType::i32});
  const ValueType& x = call.inputs[0];
  const ValueType& indices = call.inputs[1];
  const int64_t axis = normal_axis("take_along", x.shape, call.attributes.integer("axis"));
  if (indices.shape.rank() != x.shape.rank() ||
      !(indices.shape.without(axis) == x.shape.without(axis)) || x.shape.dim(axis) == 0) {
    fail_op(call, fmt::format("indices {} do not run along axis {} of {}", indices.text(), axis,
                              x.text()));
  }
  return {{indices.shape, x.dtype, {}}};
}

std::vector<Value> along_vjp(const VjpCall& call) {
  const Value x = call.inputs[0];
  const int64_t axis = call.node.attributes.integer("axis"), last = x.rank() - 1;
  std::vector<int64_t> swap(static_cast<size_t>(x.rank()));
  std::iota(swap.begin(), swap.end(), int64_t{0});
  // The permutation is its own inverse.
  std::swap(swap[static_cast<size_t>(axis)], swap[static_cast<size_t>(last)]);
  std::vector<int64_t> dims;
  for (int64_t i : swap) dims.push_back(x.dim(i));
  const Value at = transpose(clamp_rows(call.inputs[1], x.dim(axis)), swap);
  return {transpose(scatter_along_last(transpose(call.grads[0], swap), at, Shape(dims)), swap), {}};
}

// scatter_add and scatter_set: update rows of the first axis in the order of the indices. An index
// out of range is dropped.

Types set_types(const OpCall& call) {
  expect_inputs(call, 3);
  const ValueType& x = call.inputs[0];
  const ValueType& updates = call.inputs[2];
  expect_dtype(call, 1, "indices", {DType::i32});
  expect_rank(call, 1, "indices", 1);
  normal_axis(call.op.name, x.shape, 0);
  const Shape wanted = x.shape.with_dim(0, call.inputs[1].shape.dim(0));
  if (!(updates.shape == wanted) || updates.dtype != x.dtype) {
    fail_op(call, fmt::format("updates {} are not {} rows of {}", updates.text(), wanted.dim(0),
                              x.text()));
  }
  return {x};
}

Types add_types(const OpCall& call) {
  expect_inputs(call, 3);
  expect_dtype(call, 0, "x", {DType::f32, DType::i32});
  return set_types(call);
}

// Returns the rows of g at the indices, and zeros for rows whose `valid` (m) is 0.
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

std::vector<Value> index_add_vjp(const VjpCall& call) {
  const Value g = call.grads[0], indices = call.inputs[1];
  return {g, {}, call.wanted[2] ? rows_where(g, indices, in_range(indices, g.dim(0))) : Value{}};
}

// Only the last update of a row has a gradient. A row of x that was replaced has none.
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

constexpr OpDef kIndexOps[] = {
    {.name = "take", .infer = take_types, .vjp = take_vjp},
    {.name = "take_along", .infer = along_types, .vjp = along_vjp},
    {.name = "scatter_add", .infer = add_types, .vjp = index_add_vjp},
    {.name = "scatter_set", .infer = set_types, .vjp = set_vjp},
};

} // namespace

namespace ops {
std::span<const OpDef> index_ops() {
  return kIndexOps;
}
} // namespace ops

Value take(Value table, Value indices, Value scale) {
  std::vector<Value> inputs{table, indices};
  if (scale.defined()) inputs.push_back(scale);
  return apply("take", inputs, {{"has_scale", scale.defined()}});
}

Value take_along(Value x, Value indices, int64_t axis) {
  return apply("take_along", {x, indices}, {{"axis", normal_axis("take_along", x.shape(), axis)}});
}

Value scatter_add(Value x, Value indices, Value updates) {
  return apply("scatter_add", {x, indices, updates});
}
Value scatter_set(Value x, Value indices, Value updates) {
  return apply("scatter_set", {x, indices, updates});
}

} // namespace dllm::graph
