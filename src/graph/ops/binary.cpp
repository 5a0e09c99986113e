// Elementwise functions of two values of one type and shape; the free functions broadcast first.

#include "graph/ops/build.h"

#include "base/error.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types equal_types(const OpCall& call, std::initializer_list<DType> allowed) {
  expect_inputs(call, 2);
  const ValueType& x = call.inputs[0];
  const ValueType& y = call.inputs[1];
  if (x.dtype != y.dtype || !(x.shape == y.shape))
    fail_op(call, x.text() + " and " + y.text() + " differ");
  expect_dtype(call, 0, "x", allowed);
  return {x};
}

Types binary_number_types(const OpCall& call) {
  return equal_types(call, {DType::f32, DType::i32, DType::u32});
}
Types binary_float_types(const OpCall& call) {
  return equal_types(call, {DType::f32});
}
Types bit_types(const OpCall& call) {
  return equal_types(call, {DType::u8, DType::i32, DType::u32});
}
Types shift_types(const OpCall& call) {
  return equal_types(call, {DType::i32, DType::u32});
}

std::vector<Value> binary_add_vjp(const VjpCall& call) {
  return {call.grads[0], call.grads[0]};
}

std::vector<Value> subtract_vjp(const VjpCall& call) {
  return {call.grads[0], call.wanted[1] ? negate(call.grads[0]) : Value{}};
}

std::vector<Value> multiply_vjp(const VjpCall& call) {
  const Value g = call.grads[0];
  return {call.wanted[0] ? multiply(g, call.inputs[1]) : Value{},
          call.wanted[1] ? multiply(g, call.inputs[0]) : Value{}};
}

std::vector<Value> divide_vjp(const VjpCall& call) {
  const Value dx = divide(call.grads[0], call.inputs[1]);
  return {dx, call.wanted[1] ? negate(multiply(dx, call.outputs[0])) : Value{}};
}

// remainder = x - y trunc(x / y), whose quotient is constant almost everywhere.
std::vector<Value> remainder_vjp(const VjpCall& call) {
  const Value g = call.grads[0];
  if (!call.wanted[1]) return {g, {}};
  const Value quotient = divide(subtract(call.inputs[0], call.outputs[0]), call.inputs[1]);
  return {g, negate(multiply(g, round(quotient)))};
}

// Equal operands get half of the gradient each.
std::vector<Value> binary_extremum_vjp(const VjpCall& call, Value x_wins) {
  const Value g = call.grads[0], zero = full_like(g, 0);
  const Value tie =
      select(equal(call.inputs[0], call.inputs[1]), full_like(g, 0.5), full_like(g, 1));
  const Value shared = multiply(g, tie);
  const Value equals = equal(call.inputs[0], call.inputs[1]);
  return {select(logical_or(x_wins, equals), shared, zero), select(x_wins, zero, shared)};
}
std::vector<Value> minimum_vjp(const VjpCall& call) {
  return binary_extremum_vjp(call, less(call.inputs[0], call.inputs[1]));
}
std::vector<Value> maximum_vjp(const VjpCall& call) {
  return binary_extremum_vjp(call, greater(call.inputs[0], call.inputs[1]));
}

// d x^y = y x^(y-1) dx + x^y log(x) dy. The second term is 0 if x is 0.
std::vector<Value> power_vjp(const VjpCall& call) {
  const Value g = call.grads[0], x = call.inputs[0], y = call.inputs[1];
  std::vector<Value> grads(2);
  if (call.wanted[0]) grads[0] = multiply(g, multiply(y, power(x, subtract(y, full_like(y, 1)))));
  if (call.wanted[1]) {
    const Value zero = full_like(x, 0), one = full_like(x, 1);
    const Value logarithm = log(select(equal(x, zero), one, x));
    grads[1] = multiply(g, multiply(call.outputs[0], logarithm));
  }
  return grads;
}

constexpr OpDef kBinaryOps[] = {
    {.name = "add",
     .infer = binary_number_types,
     .vjp = binary_add_vjp,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "subtract",
     .infer = binary_number_types,
     .vjp = subtract_vjp,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "multiply",
     .infer = binary_number_types,
     .vjp = multiply_vjp,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "divide",
     .infer = binary_number_types,
     .vjp = divide_vjp,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "remainder",
     .infer = binary_number_types,
     .vjp = remainder_vjp,
     .is_elementwise = true},
    {.name = "minimum",
     .infer = binary_number_types,
     .vjp = minimum_vjp,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "maximum",
     .infer = binary_number_types,
     .vjp = maximum_vjp,
     .is_elementwise = true,
     .repeat = Repeat::cheap},
    {.name = "power", .infer = binary_float_types, .vjp = power_vjp, .is_elementwise = true},
    {.name = "logical_and", .infer = bit_types, .stops_gradient = true, .repeat = Repeat::cheap},
    {.name = "logical_or", .infer = bit_types, .stops_gradient = true, .repeat = Repeat::cheap},
    {.name = "logical_xor", .infer = bit_types, .stops_gradient = true},
    {.name = "shift_left", .infer = shift_types, .stops_gradient = true},
    {.name = "shift_right_logical", .infer = shift_types, .stops_gradient = true},
};

Value binary(const char* op, Value x, Value y) {
  if (x.dtype() != y.dtype()) {
    fail(Code::invalid_argument, "[{}] {} and {} have different types", op, x.type().text(),
         y.type().text());
  }
  const Shape shape = broadcast_shape(op, x.type(), y.type());
  return apply(op, {broadcast(x, shape), broadcast(y, shape)});
}

} // namespace

namespace ops {
std::span<const OpDef> binary_ops() {
  return kBinaryOps;
}
} // namespace ops

Value add(Value x, Value y) {
  return binary("add", x, y);
}
Value subtract(Value x, Value y) {
  return binary("subtract", x, y);
}
Value multiply(Value x, Value y) {
  return binary("multiply", x, y);
}
Value divide(Value x, Value y) {
  return binary("divide", x, y);
}
Value remainder(Value x, Value y) {
  return binary("remainder", x, y);
}
Value minimum(Value x, Value y) {
  return binary("minimum", x, y);
}
Value maximum(Value x, Value y) {
  return binary("maximum", x, y);
}
Value power(Value x, Value y) {
  return binary("power", x, y);
}
Value logical_and(Value x, Value y) {
  return binary("logical_and", x, y);
}
Value logical_or(Value x, Value y) {
  return binary("logical_or", x, y);
}
Value logical_xor(Value x, Value y) {
  return binary("logical_xor", x, y);
}
Value shift_left(Value x, Value y) {
  return binary("shift_left", x, y);
}
Value shift_right_logical(Value x, Value y) {
  return binary("shift_right_logical", x, y);
}

} // namespace dllm::graph
