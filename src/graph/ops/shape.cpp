// Operations that return the same elements in another shape or order.

#include "graph/ops/build.h"

#include <fmt/ranges.h>

namespace dllm::graph {
namespace {

using namespace ops;

// broadcast: as in numpy, trailing axes align and extent 1 repeats.

Types broadcast_types(const OpCall& call) {
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

std::vector<Value> broadcast_vjp(const VjpCall& call) {
  return {sum_to(call.grads[0], call.inputs[0].shape())};
}

// reshape: the same elements in another shape.

Types reshape_types(const OpCall& call) {
  expect_inputs(call, 1);
  const ValueType& x = call.inputs[0];
  const Shape wanted(call.attributes.list("shape"));
  if (wanted.count() != x.shape.count()) {
    fail_op(call, fmt::format("{} has {} elements, {} has {}", x.text(), x.shape.count(),
                              wanted.text(), wanted.count()));
  }
  return {{wanted, x.dtype, {}}};
}

std::vector<Value> reshape_vjp(const VjpCall& call) {
  return {reshape(call.grads[0], call.inputs[0].shape())};
}

// transpose: y.shape[i] = x.shape[permutation[i]].

Types transpose_types(const OpCall& call) {
  expect_inputs(call, 1);
  const ValueType& x = call.inputs[0];
  const auto& permutation = call.attributes.list("permutation");
  std::vector<bool> seen(permutation.size());
  std::vector<int64_t> dims;
  bool valid = static_cast<int64_t>(permutation.size()) == x.shape.rank();
  for (int64_t axis : permutation) {
    valid = valid && axis >= 0 && axis < x.shape.rank() && !seen[static_cast<size_t>(axis)];
    if (!valid) break;
    seen[static_cast<size_t>(axis)] = true;
    dims.push_back(x.shape.dim(axis));
  }
  if (!valid)
    fail_op(call,
            fmt::format("[{}] is not a permutation of {}", fmt::join(permutation, ", "), x.text()));
  return {{Shape(std::move(dims)), x.dtype, {}}};
}

std::vector<Value> transpose_vjp(const VjpCall& call) {
  const auto& permutation = call.node.attributes.list("permutation");
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  }
  return {transpose(call.grads[0], inverse)};
}

// reverse: the opposite order along one axis.

Types reverse_types(const OpCall& call) {
  expect_inputs(call, 1);
  normal_axis("reverse", call.inputs[0].shape, call.attributes.integer("axis"));
  return {call.inputs[0]};
}

std::vector<Value> reverse_vjp(const VjpCall& call) {
  return {reverse(call.grads[0], call.node.attributes.integer("axis"))};
}

constexpr OpDef kShapeOps[] = {
    {.name = "broadcast", .infer = broadcast_types, .vjp = broadcast_vjp, .repeat = Repeat::always},
    {.name = "reshape", .infer = reshape_types, .vjp = reshape_vjp, .repeat = Repeat::always},
    {.name = "transpose", .infer = transpose_types, .vjp = transpose_vjp, .repeat = Repeat::cheap},
    {.name = "reverse", .infer = reverse_types, .vjp = reverse_vjp, .repeat = Repeat::cheap},
};

} // namespace

namespace ops {
std::span<const OpDef> shape_ops() {
  return kShapeOps;
}
} // namespace ops

Value broadcast(Value x, Shape shape) {
  if (x.shape() == shape) return x;
  return apply("broadcast", {x}, {{"shape", shape.dims()}});
}

Value reshape(Value x, Shape shape) {
  if (x.shape() == shape) return x;
  return apply("reshape", {x}, {{"shape", shape.dims()}});
}

Value transpose(Value x, std::vector<int64_t> permutation) {
  for (int64_t& axis : permutation) axis = normal_axis("transpose", x.shape(), axis);
  return apply("transpose", {x}, {{"permutation", std::move(permutation)}});
}

Value reverse(Value x, int64_t axis) {
  return apply("reverse", {x}, {{"axis", normal_axis("reverse", x.shape(), axis)}});
}

} // namespace dllm::graph
