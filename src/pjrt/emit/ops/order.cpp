// Emitters of operations that depend on the order along an axis: top_k, sort, cumsum.

#include "pjrt/emit/emit.h"

#include <fmt/format.h>

namespace dllm::pjrt::hlo::ops {

// top_k and sort order the last axis: larger (or smaller) values first, then lower indices. NaN
// counts as the largest value.

namespace {

using build::Order;

// Returns x[.., indices[.., i]] along the last axis.
Ssa pick(Writer& w, const Ssa& x, const Ssa& indices) {
  return take_along(w, x, indices, x.shape().rank() - 1);
}

} // namespace

// chlo.top_k orders by bits: NaN by its sign, -0 before +0. So it gets keys in which all NaN are
// equal and zero has no sign. The values are then read at the indices that it finds.
static void emit_top_k(EmitCall& call) {
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

static void emit_sort(EmitCall& call) {
  Writer& w = call.w;
  const Ssa x = call.in(0);
  const int64_t axis = x.shape().rank() - 1;
  const bool descending = call.a.flag("descending");
  const Ssa index = build::iota(w, {Element::i32, x.shape()}, axis);
  // Arguments of the comparison: two values, then two indices.
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

// cumsum computes running sums inside blocks of 64, then running sums of the blocks' totals. Inside
// a block each sum is computed separately where the table of all terms is small, else one after the
// other. Doubling (x += x shifted by 1, 2, 4, ..) is not used: compilers repeat the steps before
// and make slow code of it.

namespace {

using build::Order;

constexpr int64_t kBlock = 64;
constexpr int64_t kTable = 4 << 20; // most elements of a table

// Returns y[i] = sum over j <= i of x[j] for x (outer, length, inner). Sums a table (outer, i, j,
// inner) over j.
Ssa by_table(Writer& w, const Ssa& x) {
  const int64_t length = x.shape().dim(1);
  const Shape table{x.shape().dim(0), length, length, x.shape().dim(2)};
  const Ssa to = build::iota(w, {Element::i32, table}, 1);
  const Ssa from = build::iota(w, {Element::i32, table}, 2);
  const Ssa counts = build::compare(w, Order::le, from, to);
  const Ssa spread = build::broadcast(w, x, table, {0, 2, 3});
  const Ssa zero = build::number_like(w, spread, 0);
  return build::reduce(w, "add", build::select(w, counts, spread, zero), 0, {2});
}

Ssa swap_first(Writer& w, const Ssa& x) {
  const Shape swapped{x.shape().dim(1), x.shape().dim(0), x.shape().dim(2)};
  return w.op1("stablehlo.transpose", {x}, {x.element(), swapped},
               "permutation = " + array_text({1, 0, 2}));
}

// Computes the running sums in a loop that adds one row in each step. The axis is moved to the
// front for it.
Ssa by_steps(Writer& w, const Ssa& given) {
  const Ssa x = swap_first(w, given);
  const Type row{x.element(), x.shape().without(0)}, counter{Element::i32, Shape{}};
  const Ssas start{w.splat(counter, 0), w.splat(row, 0), w.splat(x.type, 0)};
  const std::vector<Type> types{counter, row, x.type};
  const Region cond{types, [&](const Ssas& v) {
                      const auto length = static_cast<double>(x.shape().dim(0));
                      return Ssas{build::compare_with(w, Order::lt, v[0], length)};
                    }};
  const Region body{types, [&](const Ssas& v) {
                      const Ssa sum = build::binary(w, "add", v[1], read_row(w, x, v[0]));
                      const Ssa sums = write_row(w, v[2], sum, v[0]);
                      return Ssas{build::with(w, "add", v[0], 1), sum, sums};
                    }};
  return swap_first(w, w.op("stablehlo.while", start, types, {}, {cond, body})[2]);
}

// Returns the running sums of x (outer, length, inner) along axis 1.
Ssa running(Writer& w, const Ssa& x) {
  const int64_t outer = x.shape().dim(0), length = x.shape().dim(1), inner = x.shape().dim(2);
  if (length <= 1) return x;
  if (length <= kBlock)
    return x.shape().count() * length <= kTable ? by_table(w, x) : by_steps(w, x);
  const int64_t blocks = (length + kBlock - 1) / kBlock;
  const Ssa zero = w.splat({x.element(), Shape{}}, 0);
  const Ssa whole = build::pad(w, x, zero, {0, 0, 0}, {0, blocks * kBlock - length, 0});
  const Ssa rows = build::reshape(w, whole, Shape{outer * blocks, kBlock, inner});
  const Ssa inside = running(w, rows);
  const Ssa last = build::slice_axis(w, inside, 1, kBlock - 1, kBlock);
  const Ssa sums = running(w, build::reshape(w, last, Shape{outer, blocks, inner}));
  // The sum of everything before a block is the sum up to the previous block.
  const Ssa kept = build::slice_axis(w, sums, 1, 0, blocks - 1);
  const Ssa earlier = build::pad(w, kept, zero, {0, 1, 0}, {0, 0, 0});
  const Ssa before = build::reshape(w, earlier, Shape{outer * blocks, inner});
  const Ssa spread = build::broadcast(w, before, inside.shape(), {0, 2});
  const Ssa y = build::reshape(w, build::binary(w, "add", inside, spread), whole.shape());
  return build::slice_axis(w, y, 1, 0, length);
}

} // namespace

static void emit_cumsum(EmitCall& call) {
  const Ssa x = call.in(0);
  const int64_t axis = call.a.integer("axis");
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < x.shape().rank(); ++i) {
    if (i < axis) outer *= x.shape().dim(i);
    if (i > axis) inner *= x.shape().dim(i);
  }
  const Ssa lines = build::reshape(call.w, x, Shape{outer, x.shape().dim(axis), inner});
  call.out(build::reshape(call.w, running(call.w, lines), x.shape()));
}

EmitterList order_emitters() {
  static constexpr EmitterEntry kOrderEmitters[] = {
      {"cumsum", emit_cumsum},
      {"sort", emit_sort},
      {"top_k", emit_top_k},
  };
  return kOrderEmitters;
}

} // namespace dllm::pjrt::hlo::ops
