// Emitters of elementwise operations: functions of one and two arrays, comparisons, select, clamp.
#include "pjrt/emit/emit.h"

#include "graph/op.h"

#include <array>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::pjrt::hlo::ops {

namespace {

using build::Order;

// Writes a polynomial by Horner's rule. `factors` begins with the highest power.
template <size_t N> Ssa polynomial(Writer& w, const Ssa& x, const std::array<float, N>& factors) {
  Ssa y = build::number_like(w, x, static_cast<double>(factors[0]));
  for (size_t i = 1; i < N; ++i) {
    const Ssa product = build::binary(w, "multiply", y, x);
    y = build::with(w, "add", product, static_cast<double>(factors[i]));
  }
  return y;
}

// Names of operations in graphs and in StableHLO.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"absolute", "abs"},       {"cos", "cosine"},
    {"exp", "exponential"},    {"expm1", "exponential_minus_one"},
    {"floor", "floor"},        {"log", "log"},
    {"log1p", "log_plus_one"}, {"logistic", "logistic"},
    {"negate", "negate"},      {"round", "round_nearest_even"},
    {"rsqrt", "rsqrt"},        {"sign", "sign"},
    {"sin", "sine"},           {"sqrt", "sqrt"},
    {"tanh", "tanh"},
};

void emit_unary(EmitCall& call) {
  for (const auto& [ours, theirs] : kNames) {
    if (ours == call.node.op->name) return call.out(build::unary(call.w, theirs, call.in(0)));
  }
}

void emit_is_finite(EmitCall& call) {
  const Ssa x = call.in(0);
  call.out(call.w.op1("stablehlo.is_finite", {x}, {Element::i1, x.shape()}));
}

void emit_erf(EmitCall& call) {
  call.out(call.w.op1("chlo.erf", {call.in(0)}, call.out_type()));
}

// Writes the single-precision form of Giles 2012, "Approximating the erfinv function", as does
// cpu/simd/math-inl.h.
void emit_erf_inv(EmitCall& call) {
  Writer& w = call.w;
  const Ssa x = call.in(0), one = build::number_like(w, x, 1);
  const Ssa below = build::binary(w, "subtract", one, x), above = build::binary(w, "add", one, x);
  const Ssa product = build::binary(w, "multiply", below, above);
  const Ssa t = build::unary(w, "negate", build::unary(w, "log", product));
  static constexpr std::array<float, 9> kNear{2.81022636e-08f,  3.43273939e-07f, -3.5233877e-06f,
                                              -4.39150654e-06f, 0.00021858087f,  -0.00125372503f,
                                              -0.00417768164f,  0.246640727f,    1.50140941f};
  static constexpr std::array<float, 9> kFar{-0.000200214257f, 0.000100950558f, 0.00134934322f,
                                             -0.00367342844f,  0.00573950773f,  -0.0076224613f,
                                             0.00943887047f,   1.00167406f,     2.83297682f};
  const Ssa near = polynomial(w, build::with(w, "subtract", t, 2.5), kNear);
  const Ssa far = polynomial(w, build::with(w, "subtract", build::unary(w, "sqrt", t), 3), kFar);
  const Ssa is_near = build::compare_with(w, Order::lt, t, 5);
  const Ssa y = build::binary(w, "multiply", x, build::select(w, is_near, near, far));
  // The ends are infinite with the sign of x.
  const Ssa at_end = build::compare(w, Order::eq, build::unary(w, "abs", x), one);
  const Ssa end = build::with(w, "multiply", x, std::numeric_limits<double>::infinity());
  call.out(build::select(w, at_end, end, y));
}

std::vector<EmitterEntry> unary_entries() {
  std::vector<EmitterEntry> entries = {
      {"erf", emit_erf}, {"erf_inv", emit_erf_inv}, {"is_finite", emit_is_finite}};
  for (const auto& [ours, theirs] : kNames) entries.push_back({ours, emit_unary});
  return entries;
}

} // namespace

EmitterList unary_emitters() {
  static const std::vector<EmitterEntry> entries = unary_entries();
  return entries;
}

// Writes add, subtract, multiply, minimum, maximum or power, which StableHLO names the same.
// minimum and maximum of a NaN are NaN.
static void emit_binary(EmitCall& call) {
  const Ssa x = call.in(0), y = call.in(1);
  call.out(build::binary(call.w, call.node.op->name, x, y));
}

static void emit_compare(EmitCall& call) {
  using build::Order;
  static constexpr std::pair<std::string_view, Order> kOrders[] = {
      {"equal", Order::eq},      {"not_equal", Order::ne}, {"less", Order::lt},
      {"less_equal", Order::le}, {"greater", Order::gt},   {"greater_equal", Order::ge}};
  const Ssa x = call.in(0), y = call.in(1);
  for (const auto& [name, order] : kOrders) {
    if (name == call.node.op->name) return call.out(build::compare(call.w, order, x, y));
  }
}

// Writes a bitwise operation; on i1 if both operands are truth values.
static void emit_logical(EmitCall& call) {
  const std::string_view name = std::string_view(call.node.op->name).substr(8); // "and" "or" "xor"
  const bool truths = call.is_truth(0) && call.is_truth(1);
  const Ssa x = truths ? call.predicate(0) : call.in(0);
  const Ssa y = truths ? call.predicate(1) : call.in(1);
  call.out(build::binary(call.w, name, x, y));
}

static void emit_logical_not(EmitCall& call) {
  if (call.is_truth(0)) return call.out(build::unary(call.w, "not", call.predicate(0)));
  const Ssa x = call.in(0);
  call.out(build::binary(call.w, "subtract", build::number_like(call.w, x, 1), x));
}

static void emit_select(EmitCall& call) {
  const Ssa predicate = call.predicate(0);
  const bool truths = call.is_truth(1) && call.is_truth(2);
  const Ssa yes = truths ? call.predicate(1) : call.in(1);
  const Ssa no = truths ? call.predicate(2) : call.in(2);
  call.out(build::select(call.w, predicate, yes, no));
}

static void emit_clamp(EmitCall& call) {
  call.out(call.w.op1("stablehlo.clamp", {call.in(0), call.in(1), call.in(2)}, call.out_type()));
}

// divide, remainder and shifts of integers have results that StableHLO leaves undefined. Emitters
// write them out: x / 0 = 0, x % 0 = x, the smallest number / -1 wraps, a shift by 32 or more is 0.
// The extra operations are left out if the divisor or distance is a harmless constant of the graph.

namespace {

struct Division {
  Ssa x, y;
  Ssa divisor;  // y, or 1 where y is 0 or -1
  Ssa by_zero;  // i1: y is 0
  Ssa by_minus; // i1: y is -1; undefined for unsigned numbers
};

Division guarded(Writer& w, const Ssa& x, const Ssa& y) {
  const Ssa one = build::number_like(w, y, 1);
  Division d{x, y, {}, build::compare_with(w, Order::eq, y, 0), {}};
  d.divisor = build::select(w, d.by_zero, one, y);
  if (is_signed(y.element())) {
    d.by_minus = build::compare_with(w, Order::eq, y, -1);
    d.divisor = build::select(w, d.by_minus, one, d.divisor);
  }
  return d;
}

bool is_plain_division(const EmitCall& call, const Ssa& x) {
  if (is_floating(x.element())) return true;
  const auto divisor = call.same_integer(1);
  return divisor.has_value() && *divisor != 0 && *divisor != -1;
}

} // namespace

static void emit_divide(EmitCall& call) {
  Writer& w = call.w;
  const Ssa x = call.in(0), y = call.in(1);
  if (is_plain_division(call, x)) return call.out(build::binary(w, "divide", x, y));
  const Division d = guarded(w, x, y);
  Ssa z = build::binary(w, "divide", x, d.divisor);
  if (d.by_minus.defined()) z = build::select(w, d.by_minus, build::unary(w, "negate", x), z);
  call.out(build::select(w, d.by_zero, build::number_like(w, z, 0), z));
}

static void emit_remainder(EmitCall& call) {
  Writer& w = call.w;
  const Ssa x = call.in(0), y = call.in(1);
  if (is_plain_division(call, x)) return call.out(build::binary(w, "remainder", x, y));
  const Division d = guarded(w, x, y); // x % 1 = x % -1 = 0
  call.out(build::select(w, d.by_zero, x, build::binary(w, "remainder", x, d.divisor)));
}

static void emit_shift(EmitCall& call) {
  Writer& w = call.w;
  const Ssa x = call.in(0), y = call.in(1);
  const Ssa z = build::binary(w, call.node.op->name, x, y);
  const auto distance = call.same_integer(1);
  if (distance.has_value() && *distance >= 0 && *distance < 32) return call.out(z);
  const Ssa bits = build::bitcast(w, y, Element::ui32); // makes a negative distance a large one
  const Ssa fits = build::compare_with(w, Order::lt, bits, 32);
  call.out(build::select(w, fits, z, build::number_like(w, z, 0)));
}

EmitterList binary_emitters() {
  static constexpr EmitterEntry kBinaryEmitters[] = {
      {"add", emit_binary},
      {"clamp", emit_clamp},
      {"divide", emit_divide},
      {"equal", emit_compare},
      {"greater", emit_compare},
      {"greater_equal", emit_compare},
      {"less", emit_compare},
      {"less_equal", emit_compare},
      {"logical_and", emit_logical},
      {"logical_not", emit_logical_not},
      {"logical_or", emit_logical},
      {"logical_xor", emit_logical},
      {"maximum", emit_binary},
      {"minimum", emit_binary},
      {"multiply", emit_binary},
      {"not_equal", emit_compare},
      {"power", emit_binary},
      {"remainder", emit_remainder},
      {"select", emit_select},
      {"shift_left", emit_shift},
      {"shift_right_logical", emit_shift},
      {"subtract", emit_binary},
  };
  return kBinaryEmitters;
}

} // namespace dllm::pjrt::hlo::ops
