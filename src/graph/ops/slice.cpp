// slice: begin <= i < end along every axis.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

#include <fmt/ranges.h>

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
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

std::vector<Value> vjp(const VjpCall& call) {
  const auto& begin = call.node.attributes.list("begin");
  const auto& end = call.node.attributes.list("end");
  std::vector<int64_t> high;
  for (size_t i = 0; i < end.size(); ++i) high.push_back(call.inputs[0].shape().dims()[i] - end[i]);
  const Value g = call.grads[0];
  return {pad(g, begin, high, constant(call.graph, Tensor(g.dtype(), Shape{})))};
}

constexpr OpDef kOps[] = {{.name = "slice", .infer = types, .vjp = vjp}};

} // namespace

namespace ops {
std::span<const OpDef> slice_ops() {
  return kOps;
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

} // namespace dllm::graph
