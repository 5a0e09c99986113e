// convert: between the types of graphs; bitcast. Floats go to integers toward zero, saturating, NaN
// to 0: StableHLO leaves what does not fit to the compiler, so it is written out.

#include "pjrt/emit/emit.h"

namespace dllm::pjrt::hlo::ops {
namespace {

using build::Order;

// First float above the largest integer (or the largest itself where a float holds it), and the
// smallest.
struct Limits {
  double high, low;
  uint64_t high_bits, low_bits;
};

Limits limits_of(Element element) {
  switch (element) {
  case Element::i8: return {127, -128, 127, static_cast<uint64_t>(-128)};
  case Element::ui8: return {255, 0, 255, 0};
  case Element::ui32: return {4294967296.0, 0, 0xFFFFFFFFu, 0};
  default: return {2147483648.0, -2147483648.0, 0x7FFFFFFFu, 0x80000000u};
  }
}

Ssa to_integer(Writer& w, const Ssa& given, Element element) {
  const Ssa wide = build::convert(w, given, Element::f32);
  const Limits limits = limits_of(element);
  const Ssa zero = build::number_like(w, wide, 0);
  const Ssa x = build::select(w, build::is_nan(w, wide), zero, wide);
  const Ssa above = build::compare_with(w, Order::ge, x, limits.high);
  const Ssa below = build::compare_with(w, Order::le, x, limits.low);
  // What is outside is replaced before it is converted, and put right after.
  const Ssa inside = build::select(w, above, zero, build::select(w, below, zero, x));
  const Ssa y = build::convert(w, inside, element);
  const Ssa lifted = build::select(w, below, w.splat(y.type, limits.low_bits), y);
  return build::select(w, above, w.splat(y.type, limits.high_bits), lifted);
}

} // namespace

static void emit_convert(EmitCall& call) {
  const Element to = call.out_type().element;
  if (call.is_truth(0)) return call.out(build::convert(call.w, call.predicate(0), to));
  const Ssa x = call.in(0);
  if (is_floating(x.element()) && !is_floating(to)) return call.out(to_integer(call.w, x, to));
  if (to == Element::bf16 && call.slot(0).narrow.defined()) return call.out(call.slot(0).narrow);
  call.out(build::convert(call.w, x, to));
  if (x.element() == Element::bf16 && to == Element::f32) call.out_slot(0).narrow = x;
}

static void emit_bitcast(EmitCall& call) {
  call.out(build::bitcast(call.w, call.in(0), call.out_type().element));
}

EmitterList convert_emitters() {
  static constexpr EmitterEntry kConvertEmitters[] = {
      {"bitcast", emit_bitcast},
      {"convert", emit_convert},
  };
  return kConvertEmitters;
}

} // namespace dllm::pjrt::hlo::ops
