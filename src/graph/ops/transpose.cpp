// transpose: y.shape[i] = x.shape[permutation[i]].

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

#include <fmt/ranges.h>

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
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
            fmt::format("[{}] is no permutation of {}", fmt::join(permutation, ", "), x.text()));
  return {{Shape(std::move(dims)), x.dtype, {}}};
}

std::vector<Value> vjp(const VjpCall& call) {
  const auto& permutation = call.node.attributes.list("permutation");
  std::vector<int64_t> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  }
  return {transpose(call.grads[0], inverse)};
}

constexpr OpDef kOps[] = {{.name = "transpose", .infer = types, .vjp = vjp}};

} // namespace

namespace ops {
std::span<const OpDef> transpose_ops() {
  return kOps;
}
} // namespace ops

Value transpose(Value x, std::vector<int64_t> permutation) {
  for (int64_t& axis : permutation) axis = normal_axis("transpose", x.shape(), axis);
  return apply("transpose", {x}, {{"permutation", std::move(permutation)}});
}

} // namespace dllm::graph
