// Operations on parts of arrays: slice, pad, concat, and slices whose begin is a value of the run.

#include "graph/ops/build.h"

#include "base/error.h"

#include <fmt/ranges.h>

#include <numeric>

namespace dllm::graph {
namespace {

using namespace ops;

// slice: begin <= i < end along every axis.

Types slice_types(const OpCall& call) {
  expect_inputs(call, 1);
  const ValueType& x = call.inputs[0];
  const auto& begin = call.attributes.list("begin");
  const auto& end = call.attributes.list("end");
  const auto rank = static_cast<size_t>(x.shape.rank());
  std::vector<int64_t> dims;
  bool valid = begin.size() == rank && end.size() == rank;
  for (size_t i = 0; valid && i < rank; ++i) {
    valid = 0 <= begin[i] && begin[i] <= end[i] && end[i] <= x.shape.dims()[i];
    dims.push_back(end[i] - begin[i]);
  }
  if (!valid) {
    fail_op(call, fmt::format("[{}] to [{}] is not inside {}", fmt::join(begin, ", "),
                              fmt::join(end, ", "), x.text()));
  }
  return {{Shape(std::move(dims)), x.dtype, {}}};
}

std::vector<Value> slice_vjp(const VjpCall& call) {
  const auto& begin = call.node.attributes.list("begin");
  const auto& end = call.node.attributes.list("end");
  std::vector<int64_t> high;
  for (size_t i = 0; i < end.size(); ++i) high.push_back(call.inputs[0].shape().dims()[i] - end[i]);
  const Value g = call.grads[0];
  return {pad(g, begin, high, constant(call.graph, Tensor(g.dtype(), Shape{})))};
}

// pad: `low` elements of `fill` before and `high` after x along every axis.

Types pad_types(const OpCall& call) {
  expect_inputs(call, 2);
  const ValueType& x = call.inputs[0];
  expect_rank(call, 1, "fill", 0);
  expect_dtype(call, 1, "fill", {x.dtype});
  const auto& low = call.attributes.list("low");
  const auto& high = call.attributes.list("high");
  const auto rank = static_cast<size_t>(x.shape.rank());
  bool valid = low.size() == rank && high.size() == rank;
  std::vector<int64_t> dims;
  for (size_t i = 0; valid && i < rank; ++i) {
    valid = low[i] >= 0 && high[i] >= 0;
    dims.push_back(x.shape.dims()[i] + low[i] + high[i]);
  }
  if (!valid) {
    fail_op(call, fmt::format("[{}] and [{}] cannot be put around {}", fmt::join(low, ", "),
                              fmt::join(high, ", "), x.text()));
  }
  return {{Shape(std::move(dims)), x.dtype, {}}};
}

std::vector<Value> pad_vjp(const VjpCall& call) {
  const Value g = call.grads[0];
  const auto& low = call.node.attributes.list("low");
  std::vector<int64_t> end = call.inputs[0].shape().dims(), all(end.size());
  for (size_t i = 0; i < end.size(); ++i) end[i] += low[i];
  const Value dx = slice(g, low, end);
  if (!call.wanted[1]) return {dx, {}};
  std::iota(all.begin(), all.end(), int64_t{0});
  const Value whole = sum(convert(g, DType::f32), all);
  return {dx, subtract(whole, sum(convert(dx, DType::f32), all))};
}

// concat: parts joined along one axis.

Types concat_types(const OpCall& call) {
  const int64_t axis = call.attributes.integer("axis");
  const ValueType& first = call.inputs[0];
  int64_t extent = 0;
  for (const ValueType& part : call.inputs) {
    const bool fits = part.dtype == first.dtype && part.shape.rank() == first.shape.rank() &&
                      part.shape.without(axis) == first.shape.without(axis);
    if (!fits) {
      fail_op(call, fmt::format("{} do not join along axis {}", types_text(call.inputs), axis));
    }
    extent += part.shape.dim(axis);
  }
  return {{first.shape.with_dim(axis, extent), first.dtype, {}}};
}

std::vector<Value> concat_vjp(const VjpCall& call) {
  const int64_t axis = call.node.attributes.integer("axis");
  std::vector<Value> grads;
  int64_t begin = 0;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const int64_t extent = call.inputs[i].dim(axis);
    grads.push_back(call.wanted[i] ? slice_axis(call.grads[0], axis, begin, begin + extent)
                                   : Value{});
    begin += extent;
  }
  return grads;
}

// dynamic_slice and dynamic_update_slice: windows whose begin is a value of the run. Each is used
// in the other's gradient.

void expect_begins(const OpCall& call, size_t first) {
  expect_inputs(call, first + static_cast<size_t>(call.inputs[0].shape.rank()));
  for (size_t i = first; i < call.inputs.size(); ++i) {
    expect_rank(call, i, "begin", 0);
    expect_dtype(call, i, "begin", {DType::i32});
  }
}

bool fits_in(const Shape& part, const Shape& whole) {
  if (part.rank() != whole.rank()) return false;
  for (int64_t i = 0; i < whole.rank(); ++i) {
    if (part.dim(i) < 0 || part.dim(i) > whole.dim(i)) return false;
  }
  return true;
}

Types dynamic_slice_types(const OpCall& call) {
  expect_begins(call, 1);
  const ValueType& x = call.inputs[0];
  const Shape size(call.attributes.list("size"));
  if (!fits_in(size, x.shape))
    fail_op(call, "size " + size.text() + " does not fit into " + x.text());
  return {{size, x.dtype, {}}};
}

Types dynamic_update_types(const OpCall& call) {
  expect_begins(call, 2);
  const ValueType& x = call.inputs[0];
  const ValueType& update = call.inputs[1];
  if (!fits_in(update.shape, x.shape) || update.dtype != x.dtype) {
    fail_op(call, "update " + update.text() + " does not fit into " + x.text());
  }
  return {x};
}

std::vector<Value> dynamic_slice_vjp(const VjpCall& call) {
  const std::vector<Value> begin(call.inputs.begin() + 1, call.inputs.end());
  std::vector<Value> grads(call.inputs.size());
  grads[0] = dynamic_update_slice(full_like(call.inputs[0], 0), call.grads[0], begin);
  return grads;
}

std::vector<Value> dynamic_update_vjp(const VjpCall& call) {
  const Value g = call.grads[0];
  const Value update = call.inputs[1];
  const std::vector<Value> begin(call.inputs.begin() + 2, call.inputs.end());
  std::vector<Value> grads(call.inputs.size());
  if (call.wanted[0]) grads[0] = dynamic_update_slice(g, full_like(update, 0), begin);
  if (call.wanted[1]) grads[1] = dynamic_slice(g, begin, update.shape().dims());
  return grads;
}

constexpr OpDef kSliceOps[] = {
    {.name = "slice", .infer = slice_types, .vjp = slice_vjp, .repeat = Repeat::cheap},
    {.name = "pad", .infer = pad_types, .vjp = pad_vjp, .repeat = Repeat::cheap},
    {.name = "concat", .infer = concat_types, .vjp = concat_vjp, .repeat = Repeat::cheap},
    {.name = "dynamic_slice", .infer = dynamic_slice_types, .vjp = dynamic_slice_vjp},
    {.name = "dynamic_update_slice", .infer = dynamic_update_types, .vjp = dynamic_update_vjp},
};

} // namespace

namespace ops {
std::span<const OpDef> slice_ops() {
  return kSliceOps;
}
} // namespace ops

Value slice(Value x, std::vector<int64_t> begin, std::vector<int64_t> end) {
  return apply("slice", {x}, {{"begin", std::move(begin)}, {"end", std::move(end)}});
}

Value slice_axis(Value x, int64_t axis, int64_t begin, int64_t end) {
  axis = normal_axis("slice", x.shape(), axis);
  std::vector<int64_t> low(static_cast<size_t>(x.rank()), 0), high = x.shape().dims();
  low[static_cast<size_t>(axis)] = begin;
  high[static_cast<size_t>(axis)] = end;
  return slice(x, std::move(low), std::move(high));
}

Value pad(Value x, std::vector<int64_t> low, std::vector<int64_t> high, Value fill) {
  return apply("pad", {x, fill}, {{"low", std::move(low)}, {"high", std::move(high)}});
}

Value concat(const std::vector<Value>& parts, int64_t axis) {
  if (parts.empty()) fail(Code::invalid_argument, "[concat] has no parts");
  return apply("concat", parts, {{"axis", normal_axis("concat", parts[0].shape(), axis)}});
}

Value dynamic_slice(Value x, const std::vector<Value>& begin, std::vector<int64_t> size) {
  std::vector<Value> inputs{x};
  inputs.insert(inputs.end(), begin.begin(), begin.end());
  return apply("dynamic_slice", inputs, {{"size", std::move(size)}});
}

Value dynamic_update_slice(Value x, Value update, const std::vector<Value>& begin) {
  std::vector<Value> inputs{x, update};
  inputs.insert(inputs.end(), begin.begin(), begin.end());
  return ops::apply("dynamic_update_slice", inputs); // not std::apply
}

} // namespace dllm::graph
