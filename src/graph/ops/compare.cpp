// Comparisons: u8, 1 where the relation holds. NaN is unequal to everything.

#include "graph/ops/build.h"
#include "graph/ops/registry.h"

#include "base/error.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
  expect_inputs(call, 2);
  const ValueType& x = call.inputs[0];
  const ValueType& y = call.inputs[1];
  if (x.dtype != y.dtype || !(x.shape == y.shape))
    fail_op(call, x.text() + " and " + y.text() + " differ");
  expect_dtype(call, 0, "x", {DType::f32, DType::i32, DType::u32, DType::u8});
  return {{x.shape, DType::u8, {}}};
}

constexpr OpDef kOps[] = {
    {.name = "equal", .infer = types, .stops_gradient = true},
    {.name = "not_equal", .infer = types, .stops_gradient = true},
    {.name = "less", .infer = types, .stops_gradient = true},
    {.name = "less_equal", .infer = types, .stops_gradient = true},
    {.name = "greater", .infer = types, .stops_gradient = true},
    {.name = "greater_equal", .infer = types, .stops_gradient = true},
};

Value compare(const char* op, Value x, Value y) {
  if (x.dtype() != y.dtype()) {
    fail(Code::invalid_argument, "[{}] {} and {} have different types", op, x.type().text(),
         y.type().text());
  }
  const Shape shape = broadcast_shape(op, x.type(), y.type());
  return apply(op, {broadcast(x, shape), broadcast(y, shape)});
}

} // namespace

namespace ops {
std::span<const OpDef> compare_ops() {
  return kOps;
}
} // namespace ops

Value equal(Value x, Value y) {
  return compare("equal", x, y);
}
Value not_equal(Value x, Value y) {
  return compare("not_equal", x, y);
}
Value less(Value x, Value y) {
  return compare("less", x, y);
}
Value less_equal(Value x, Value y) {
  return compare("less_equal", x, y);
}
Value greater(Value x, Value y) {
  return compare("greater", x, y);
}
Value greater_equal(Value x, Value y) {
  return compare("greater_equal", x, y);
}

} // namespace dllm::graph
