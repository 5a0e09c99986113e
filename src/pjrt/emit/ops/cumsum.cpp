// cumsum: running sums by doubling inside blocks of 128, then over the sums of the blocks, so that
// the work is some 8 additions an element however long the axis is.

#include "pjrt/emit/build.h"
#include "pjrt/emit/ops/ops.h"

namespace dllm::pjrt::hlo::ops {
namespace {

constexpr int64_t kBlock = 128;

// x[i] + x[i - distance], x[i] alone for the first ones.
Ssa add_shifted(Writer& w, const Ssa& x, int64_t axis, int64_t distance) {
  const int64_t length = x.shape().dim(axis);
  std::vector<int64_t> low(x.shape().dims().size(), 0), high = low;
  low[static_cast<size_t>(axis)] = distance;
  const Ssa kept = build::slice_axis(w, x, axis, 0, length - distance);
  const Ssa zero = w.splat({x.element(), Shape{}}, 0);
  return build::binary(w, "add", x, build::pad(w, kept, zero, low, high));
}

// Running sums of x (outer, length, inner) along axis 1.
Ssa running(Writer& w, Ssa x) {
  const int64_t outer = x.shape().dim(0), length = x.shape().dim(1), inner = x.shape().dim(2);
  if (length <= kBlock) {
    for (int64_t distance = 1; distance < length; distance *= 2) x = add_shifted(w, x, 1, distance);
    return x;
  }
  const int64_t blocks = (length + kBlock - 1) / kBlock;
  const Ssa zero = w.splat({x.element(), Shape{}}, 0);
  const Ssa whole = build::pad(w, x, zero, {0, 0, 0}, {0, blocks * kBlock - length, 0});
  const Ssa rows = build::reshape(w, whole, Shape{outer * blocks, kBlock, inner});
  const Ssa inside = running(w, rows);
  const Ssa last = build::slice_axis(w, inside, 1, kBlock - 1, kBlock);
  const Ssa sums = running(w, build::reshape(w, last, Shape{outer, blocks, inner}));
  // What stands before a block: the sums shifted by one.
  const Ssa earlier =
      build::pad(w, build::slice_axis(w, sums, 1, 0, blocks - 1), zero, {0, 1, 0}, {0, 0, 0});
  const Ssa before = build::reshape(w, earlier, Shape{outer * blocks, inner});
  const Ssa spread = build::broadcast(w, before, inside.shape(), {0, 2});
  const Ssa y = build::reshape(w, build::binary(w, "add", inside, spread), whole.shape());
  return build::slice_axis(w, y, 1, 0, length);
}

} // namespace

void emit_cumsum(EmitCall& call) {
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

} // namespace dllm::pjrt::hlo::ops
