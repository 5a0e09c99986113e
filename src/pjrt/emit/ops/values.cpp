// Emitters of operations that create a value, pass it on, or change its type.
#include "pjrt/emit/emit.h"

namespace dllm::pjrt::hlo::ops {

static void emit_constant(EmitCall& call) {
  call.out(call.w.constant(call.node.literal));
}

static void emit_iota(EmitCall& call) {
  call.out(build::iota(call.w, call.out_type(), call.a.integer("axis")));
}

void emit_same(EmitCall& call) {
  call.out_slot(0) = call.slot(0);
}

static void emit_barrier(EmitCall& call) {
  call.out(call.w.op1("stablehlo.optimization_barrier", {call.in(0)}, call.out_type()));
}

// random_bits is threefry 2x32 with 20 rounds of (key, index of the element), as in base/random.h.
// So every engine draws the same bits; the generators of plugins differ from each other.

namespace {

constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
constexpr uint32_t kParity = 0x1BD11BDA; // Skein's key schedule constant, 32-bit

Ssa rotate(Writer& w, const Ssa& x, int distance) {
  const Ssa up = build::with(w, "shift_left", x, distance);
  const Ssa down = build::with(w, "shift_right_logical", x, 32 - distance);
  return build::binary(w, "or", up, down);
}

// Returns the high and low word of the index of every element.
std::pair<Ssa, Ssa> counters(Writer& w, const Shape& flat) {
  const Type word{Element::ui32, flat};
  const int64_t axis = flat.rank() - 1;
  if (flat.dim(axis) <= int64_t{1} << 32) return {w.splat(word, 0), build::iota(w, word, axis)};
  const Ssa index = build::iota(w, {Element::ui64, flat}, axis);
  return {build::convert(w, build::with(w, "shift_right_logical", index, 32), Element::ui32),
          build::convert(w, index, Element::ui32)};
}

} // namespace

static void emit_random_bits(EmitCall& call) {
  Writer& w = call.w;
  const Shape shape = call.out_type().shape;
  const Ssa key = call.in(0);
  const bool of_rows = key.type.shape.rank() == 2;
  const int64_t keys = of_rows ? shape.dim(0) : 1;
  const Shape flat =
      of_rows ? Shape{keys, shape.count() / std::max<int64_t>(keys, 1)} : Shape{shape.count()};
  const auto word = [&](int64_t i) {
    return build::reshape(w, build::slice_axis(w, key, of_rows ? 1 : 0, i, i + 1),
                          of_rows ? Shape{keys} : Shape{});
  };
  const Ssa hi = word(0), lo = word(1);
  const Ssa parity = w.splat(hi.type, kParity), joined = build::binary(w, "xor", hi, lo);
  const Ssa mixed = build::binary(w, "xor", joined, parity);
  const std::vector<int64_t> dims = of_rows ? std::vector<int64_t>{0} : std::vector<int64_t>{};
  const Ssa schedule[3] = {build::broadcast(w, hi, flat, dims), build::broadcast(w, lo, flat, dims),
                           build::broadcast(w, mixed, flat, dims)};
  auto [x0, x1] = counters(w, flat);
  x0 = build::binary(w, "add", x0, schedule[0]);
  x1 = build::binary(w, "add", x1, schedule[1]);
  for (size_t group = 0; group < 5; ++group) {
    for (const int rotation : kRotations[group % 2]) {
      x0 = build::binary(w, "add", x0, x1);
      x1 = build::binary(w, "xor", rotate(w, x1, rotation), x0);
    }
    x0 = build::binary(w, "add", x0, schedule[(group + 1) % 3]);
    x1 = build::binary(w, "add", x1, schedule[(group + 2) % 3]);
    x1 = build::with(w, "add", x1, static_cast<double>(group + 1));
  }
  call.out(build::reshape(w, build::binary(w, "xor", x0, x1), shape));
}

EmitterList constant_emitters() {
  static constexpr EmitterEntry kConstantEmitters[] = {
      {"barrier", emit_barrier},         {"constant", emit_constant},  {"iota", emit_iota},
      {"random_bits", emit_random_bits}, {"stop_gradient", emit_same}, {"vary", emit_same},
  };
  return kConstantEmitters;
}

// convert and bitcast. A conversion of floats to integers rounds toward zero and saturates; NaN
// becomes 0. The emitter writes this out, because StableHLO leaves values out of range undefined.

namespace {

using build::Order;

// The range of an integer type. high is the largest integer, or the first float above it if no
// float equals it; low is the smallest integer. high_bits and low_bits are the integers themselves.
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
  // Values out of range are converted as 0 and replaced by the limit afterwards.
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
