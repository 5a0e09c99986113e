// Comparisons, select and clamp.

#include "graph/ops/build.h"

#include "base/error.h"

namespace dllm::graph {
namespace {

using namespace ops;

// Comparisons: u8, 1 if the relation holds. NaN is unequal to every number.

Types compare_types(const OpCall& call) {
  expect_inputs(call, 2);
  const ValueType& x = call.inputs[0];
  const ValueType& y = call.inputs[1];
  if (x.dtype != y.dtype || !(x.shape == y.shape))
    fail_op(call, x.text() + " and " + y.text() + " differ");
  expect_dtype(call, 0, "x", {DType::f32, DType::i32, DType::u32, DType::u8});
  return {{x.shape, DType::u8, {}}};
}

Value compare(const char* op, Value x, Value y) {
  if (x.dtype() != y.dtype()) {
    fail(Code::invalid_argument, "[{}] {} and {} have different compare_types", op, x.type().text(),
         y.type().text());
  }
  const Shape shape = broadcast_shape(op, x.type(), y.type());
  return apply(op, {broadcast(x, shape), broadcast(y, shape)});
}

// select: on_true if predicate != 0, else on_false. clamp: min(max(x, low), high).

void expect_compare_equal(const OpCall& call, size_t a, size_t b) {
  const ValueType& x = call.inputs[a];
  const ValueType& y = call.inputs[b];
  if (x.shape == y.shape && x.dtype == y.dtype) return;
  fail_op(call, x.text() + " and " + y.text() + " differ");
}

Types select_types(const OpCall& call) {
  expect_inputs(call, 3);
  expect_dtype(call, 0, "predicate", {DType::u8});
  expect_compare_equal(call, 1, 2);
  expect_shape(call, 0, "predicate", call.inputs[1].shape);
  return {call.inputs[1]};
}

Types clamp_types(const OpCall& call) {
  expect_inputs(call, 3);
  expect_dtype(call, 1, "x", {DType::f32, DType::i32, DType::u32});
  expect_compare_equal(call, 0, 1);
  expect_compare_equal(call, 2, 1);
  return {call.inputs[1]};
}

std::vector<Value> select_vjp(const VjpCall& call) {
  const Value g = call.grads[0], zero = full_like(g, 0);
  return {Value{}, select(call.inputs[0], g, zero), select(call.inputs[0], zero, g)};
}

std::vector<Value> clamp_vjp(const VjpCall& call) {
  const Value low = call.inputs[0], x = call.inputs[1], high = call.inputs[2];
  const Value g = call.grads[0], zero = full_like(g, 0);
  const Value below = less(x, low), above = greater(x, high);
  return {select(below, g, zero), select(logical_or(below, above), zero, g),
          select(above, g, zero)};
}

constexpr OpDef kCompareOps[] = {
    {.name = "equal", .infer = compare_types, .stops_gradient = true, .repeat = Repeat::cheap},
    {.name = "not_equal", .infer = compare_types, .stops_gradient = true, .repeat = Repeat::cheap},
    {.name = "less", .infer = compare_types, .stops_gradient = true, .repeat = Repeat::cheap},
    {.name = "less_equal", .infer = compare_types, .stops_gradient = true, .repeat = Repeat::cheap},
    {.name = "greater", .infer = compare_types, .stops_gradient = true, .repeat = Repeat::cheap},
    {.name = "greater_equal",
     .infer = compare_types,
     .stops_gradient = true,
     .repeat = Repeat::cheap},
    {.name = "select", .infer = select_types, .vjp = select_vjp, .repeat = Repeat::cheap},
    {.name = "clamp", .infer = clamp_types, .vjp = clamp_vjp, .repeat = Repeat::cheap},
};

} // namespace

namespace ops {
std::span<const OpDef> compare_ops() {
  return kCompareOps;
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

Value select(Value predicate, Value on_true, Value on_false) {
  const Shape pair = broadcast_shape("select", on_true.type(), on_false.type());
  const Shape shape = broadcast_shape("select", predicate.type(), {pair, on_true.dtype(), {}});
  return apply("select", {broadcast(predicate, shape), broadcast(on_true, shape),
                          broadcast(on_false, shape)});
}

Value clamp(Value low, Value x, Value high) {
  return apply("clamp", {broadcast(low, x.shape()), x, broadcast(high, x.shape())});
}

} // namespace dllm::graph
