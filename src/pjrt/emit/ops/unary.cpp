// Functions of one array.

#include "pjrt/emit/scope.h"

#include "graph/op.h"

#include <array>
#include <limits>
#include <utility>
#include <vector>

namespace dllm::pjrt::hlo::ops {
namespace {

using build::Order;

// Horner's rule, highest power first.
template <size_t N> Ssa polynomial(Writer& w, const Ssa& x, const std::array<float, N>& factors) {
  Ssa y = build::number_like(w, x, static_cast<double>(factors[0]));
  for (size_t i = 1; i < N; ++i) {
    const Ssa product = build::binary(w, "multiply", y, x);
    y = build::with(w, "add", product, static_cast<double>(factors[i]));
  }
  return y;
}

// Ours, and the StableHLO operation of the same meaning.
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

// Giles 2012, "Approximating the erfinv function", the single-precision form; as cpu/simd/math-inl.
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

} // namespace dllm::pjrt::hlo::ops
