// dot: batched matrix product (.., m, k) x (.., k, n).

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

#include "base/error.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
  expect_inputs(call, 2);
  expect_dtype(call, 0, "x", {DType::f32});
  expect_dtype(call, 1, "y", {DType::f32});
  const Shape& x = call.inputs[0].shape;
  const Shape& y = call.inputs[1].shape;
  bool fits = x.rank() >= 2 && x.rank() == y.rank() && x.dim(-1) == y.dim(-2);
  for (int64_t i = 0; fits && i + 2 < x.rank(); ++i) fits = x.dim(i) == y.dim(i);
  if (!fits) fail_op(call, types_text(call.inputs) + " do not multiply");
  return {{x.with_dim(-1, y.dim(-1)), DType::f32, {}}};
}

std::vector<Value> vjp(const VjpCall& call) {
  const Value g = call.grads[0];
  return {call.wanted[0] ? dot(g, swap_last(call.inputs[1])) : Value{},
          call.wanted[1] ? dot(swap_last(call.inputs[0]), g) : Value{}};
}

constexpr OpDef kOps[] = {{.name = "dot", .infer = types, .vjp = vjp}};

Shape leading(const Shape& shape) {
  return Shape(std::vector<int64_t>(shape.dims().begin(), shape.dims().end() - 2));
}

Value with_leading(Value x, const Shape& lead) {
  std::vector<int64_t> dims = lead.dims();
  dims.push_back(x.dim(-2));
  dims.push_back(x.dim(-1));
  return broadcast(x, Shape(std::move(dims)));
}

} // namespace

namespace ops {
std::span<const OpDef> dot_ops() {
  return kOps;
}
} // namespace ops

Value dot(Value x, Value y) {
  if (x.rank() < 2 || y.rank() < 2 || x.dim(-1) != y.dim(-2)) {
    fail(Code::invalid_argument, "[dot] {} and {} do not multiply", x.type().text(),
         y.type().text());
  }
  const Shape lead = broadcast_shape("dot", {leading(x.shape()), x.dtype(), {}},
                                     {leading(y.shape()), y.dtype(), {}});
  return apply("dot", {with_leading(x, lead), with_leading(y, lead)});
}

} // namespace dllm::graph
