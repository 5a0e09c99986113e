// top_k and sort along the last axis: larger (or smaller) value first, then lower index; NaN counts
// as the largest.

#include "pjrt/emit/build.h"
#include "pjrt/emit/ops/ops.h"

#include <fmt/format.h>

namespace dllm::pjrt::hlo::ops {
namespace {

using build::Order;

// x[.., indices[.., i]] along the last axis.
Ssa pick(Writer& w, const Ssa& x, const Ssa& indices) {
  return take_along(w, x, indices, x.shape().rank() - 1);
}

} // namespace

// chlo.top_k orders by bits: NaN by its sign, -0 below +0. So it sees keys in which every NaN is
// the same and zero has no sign, and the values are picked by index.
void emit_top_k(EmitCall& call) {
  Writer& w = call.w;
  const Ssa x = call.in(0);
  const Ssa is_nan = build::is_nan(w, x), nan = w.splat(x.type, 0x7FC00000u);
  const Ssa one_nan = build::select(w, is_nan, nan, x);
  const Ssa is_zero = build::compare_with(w, Order::eq, x, 0);
  const Ssa key = build::select(w, is_zero, build::number_like(w, x, 0), one_nan);
  const Ssas made = w.op("chlo.top_k", {key}, {call.out_type(0), call.out_type(1)},
                         fmt::format("k = {} : i64", call.a.integer("k")));
  call.out(0, pick(w, x, made[1]));
  call.out(1, made[1]);
}

void emit_sort(EmitCall& call) {
  Writer& w = call.w;
  const Ssa x = call.in(0);
  const int64_t axis = x.shape().rank() - 1;
  const bool descending = call.a.flag("descending");
  const Ssa index = build::iota(w, {Element::i32, x.shape()}, axis);
  // Pairs of values, then pairs of indices.
  const Type value{x.element(), Shape{}}, number{Element::i32, Shape{}};
  const Region before{{value, value, number, number}, [&](const Ssas& a) {
                        const Ssa& larger = descending ? a[0] : a[1];
                        const Ssa& smaller = descending ? a[1] : a[0];
                        Ssa first = build::compare(w, Order::gt, larger, smaller);
                        if (is_floating(value.element)) {
                          const Ssa number_below = build::compare(w, Order::eq, smaller, smaller);
                          const Ssa nan_wins =
                              build::binary(w, "and", build::is_nan(w, larger), number_below);
                          first = build::binary(w, "or", first, nan_wins);
                        }
                        return Ssas{first};
                      }};
  const Ssas made = w.op("stablehlo.sort", {x, index}, {x.type, index.type},
                         fmt::format("dimension = {} : i64, is_stable = true", axis), {before});
  call.out(0, made[0]);
  call.out(1, made[1]);
}

} // namespace dllm::pjrt::hlo::ops
