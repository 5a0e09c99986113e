// divide, remainder and shifts: what compilers leave open for integers is written out. x / 0 = 0,
// x % 0 = x, the smallest number divided by -1 wraps, a shift by 32 or more gives 0. A divisor or
// distance that stands in the graph as a number needs none of it.

#include "pjrt/emit/build.h"
#include "pjrt/emit/ops/ops.h"

#include "graph/op.h"

namespace dllm::pjrt::hlo::ops {
namespace {

using build::Order;

struct Division {
  Ssa x, y;
  Ssa divisor;  // y, 1 where y is 0 or -1
  Ssa by_zero;  // i1
  Ssa by_minus; // i1; of signed numbers
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

void emit_divide(EmitCall& call) {
  Writer& w = call.w;
  const Ssa x = call.in(0), y = call.in(1);
  if (is_plain_division(call, x)) return call.out(build::binary(w, "divide", x, y));
  const Division d = guarded(w, x, y);
  Ssa z = build::binary(w, "divide", x, d.divisor);
  if (d.by_minus.defined()) z = build::select(w, d.by_minus, build::unary(w, "negate", x), z);
  call.out(build::select(w, d.by_zero, build::number_like(w, z, 0), z));
}

void emit_remainder(EmitCall& call) {
  Writer& w = call.w;
  const Ssa x = call.in(0), y = call.in(1);
  if (is_plain_division(call, x)) return call.out(build::binary(w, "remainder", x, y));
  const Division d = guarded(w, x, y); // by 1 nothing remains, as by -1
  call.out(build::select(w, d.by_zero, x, build::binary(w, "remainder", x, d.divisor)));
}

void emit_shift(EmitCall& call) {
  Writer& w = call.w;
  const Ssa x = call.in(0), y = call.in(1);
  const Ssa z = build::binary(w, call.node.op->name, x, y);
  const auto distance = call.same_integer(1);
  if (distance.has_value() && *distance >= 0 && *distance < 32) return call.out(z);
  const Ssa bits = build::bitcast(w, y, Element::ui32); // a negative distance is a large one
  const Ssa fits = build::compare_with(w, Order::lt, bits, 32);
  call.out(build::select(w, fits, z, build::number_like(w, z, 0)));
}

} // namespace dllm::pjrt::hlo::ops
