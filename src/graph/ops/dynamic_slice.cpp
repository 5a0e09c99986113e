// dynamic_slice and dynamic_update_slice: windows whose place is known at run time; each is the
// other's gradient.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

#include <fmt/ranges.h>

namespace dllm::graph {
namespace {

using namespace ops;

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

Types slice_types(const OpCall& call) {
  expect_begins(call, 1);
  const ValueType& x = call.inputs[0];
  const Shape size(call.attributes.list("size"));
  if (!fits_in(size, x.shape))
    fail_op(call, "size " + size.text() + " does not fit into " + x.text());
  return {{size, x.dtype, {}}};
}

Types update_types(const OpCall& call) {
  expect_begins(call, 2);
  const ValueType& x = call.inputs[0];
  const ValueType& update = call.inputs[1];
  if (!fits_in(update.shape, x.shape) || update.dtype != x.dtype) {
    fail_op(call, "update " + update.text() + " does not fit into " + x.text());
  }
  return {x};
}

std::vector<Value> slice_vjp(const VjpCall& call) {
  const std::vector<Value> begin(call.inputs.begin() + 1, call.inputs.end());
  std::vector<Value> grads(call.inputs.size());
  grads[0] = dynamic_update_slice(full_like(call.inputs[0], 0), call.grads[0], begin);
  return grads;
}

std::vector<Value> update_vjp(const VjpCall& call) {
  const Value g = call.grads[0];
  const Value update = call.inputs[1];
  const std::vector<Value> begin(call.inputs.begin() + 2, call.inputs.end());
  std::vector<Value> grads(call.inputs.size());
  if (call.wanted[0]) grads[0] = dynamic_update_slice(g, full_like(update, 0), begin);
  if (call.wanted[1]) grads[1] = dynamic_slice(g, begin, update.shape().dims());
  return grads;
}

constexpr OpDef kOps[] = {
    {.name = "dynamic_slice", .infer = slice_types, .vjp = slice_vjp},
    {.name = "dynamic_update_slice", .infer = update_types, .vjp = update_vjp},
};

} // namespace

namespace ops {
std::span<const OpDef> dynamic_slice_ops() {
  return kOps;
}
} // namespace ops

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
