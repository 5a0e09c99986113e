// pad: `low` elements of `fill` before and `high` after x along every axis.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

#include <fmt/ranges.h>

#include <numeric>

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
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

std::vector<Value> vjp(const VjpCall& call) {
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

constexpr OpDef kOps[] = {{.name = "pad", .infer = types, .vjp = vjp}};

} // namespace

namespace ops {
std::span<const OpDef> pad_ops() {
  return kOps;
}
} // namespace ops

Value pad(Value x, std::vector<int64_t> low, std::vector<int64_t> high, Value fill) {
  return apply("pad", {x, fill}, {{"low", std::move(low)}, {"high", std::move(high)}});
}

} // namespace dllm::graph
