// sum, max, min over axes.

#include "graph/ops/build.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::graph {
namespace {

using namespace ops;

bool reduced(const std::vector<int64_t>& axes, int64_t axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

Shape kept_shape(const Shape& shape, const std::vector<int64_t>& axes) {
  Shape kept = shape;
  for (int64_t axis : axes) kept = kept.with_dim(axis, 1);
  return kept;
}

Types reduce_types(const OpCall& call) {
  expect_inputs(call, 1);
  expect_dtype(call, 0, "x", {DType::f32, DType::i32, DType::u32});
  const ValueType& x = call.inputs[0];
  const auto& axes = call.attributes.list("axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    normal_axis(call.op.name, x.shape, axes[i]);
    if (i > 0 && axes[i] <= axes[i - 1])
      fail_op(call, fmt::format("axis {} is given twice", axes[i]));
  }
  if (call.attributes.flag("keep")) return {{kept_shape(x.shape, axes), x.dtype, {}}};
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < x.shape.rank(); ++i) {
    if (!reduced(axes, i)) dims.push_back(x.shape.dim(i));
  }
  return {{Shape(std::move(dims)), x.dtype, {}}};
}

Types extremum_types(const OpCall& call) {
  for (int64_t axis : call.attributes.list("axes")) {
    if (call.inputs[0].shape.dim(axis) == 0) {
      fail_op(call, fmt::format("axis {} of {} is empty", axis, call.inputs[0].text()));
    }
  }
  return reduce_types(call);
}

// Broadcasts the result, or its gradient, to the shape of x.
Value spread(Value y, const VjpCall& call) {
  const Shape& shape = call.inputs[0].shape();
  return broadcast(reshape(y, kept_shape(shape, call.node.attributes.list("axes"))), shape);
}

std::vector<Value> sum_vjp(const VjpCall& call) {
  return {spread(call.grads[0], call)};
}

// The elements that equal the extremum share the gradient.
std::vector<Value> reduce_extremum_vjp(const VjpCall& call) {
  const Value x = call.inputs[0];
  const Value hit = convert(equal(x, spread(call.outputs[0], call)), x.dtype());
  const Value hits = sum(hit, call.node.attributes.list("axes"), call.node.attributes.flag("keep"));
  return {multiply(hit, spread(divide(call.grads[0], hits), call))};
}

constexpr OpDef kReduceOps[] = {
    {.name = "sum", .infer = reduce_types, .vjp = sum_vjp},
    {.name = "max", .infer = extremum_types, .vjp = reduce_extremum_vjp},
    {.name = "min", .infer = extremum_types, .vjp = reduce_extremum_vjp},
};

Value reduce(const char* op, Value x, std::vector<int64_t> axes, bool keep) {
  for (int64_t& axis : axes) axis = normal_axis(op, x.shape(), axis);
  std::sort(axes.begin(), axes.end());
  return apply(op, {x}, {{"axes", std::move(axes)}, {"keep", keep}});
}

} // namespace

namespace ops {
std::span<const OpDef> reduce_ops() {
  return kReduceOps;
}
} // namespace ops

Value sum(Value x, std::vector<int64_t> axes, bool keep) {
  return reduce("sum", x, std::move(axes), keep);
}
Value max(Value x, std::vector<int64_t> axes, bool keep) {
  return reduce("max", x, std::move(axes), keep);
}
Value min(Value x, std::vector<int64_t> axes, bool keep) {
  return reduce("min", x, std::move(axes), keep);
}

} // namespace dllm::graph
