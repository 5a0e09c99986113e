// sum, max, min, argmax.

#include "pjrt/emit/scope.h"

#include "graph/op.h"

#include <string_view>

namespace dllm::pjrt::hlo::ops {
namespace {

using build::Order;

// Bit patterns that change nothing under max and min.
uint64_t lowest(Element element) {
  return element == Element::f32 ? 0xFF800000u : element == Element::i32 ? 0x80000000u : 0u;
}
uint64_t highest(Element element) {
  return element == Element::f32   ? 0x7F800000u
         : element == Element::i32 ? 0x7FFFFFFFu
                                   : 0xFFFFFFFFu;
}

} // namespace

static void emit_reduce(EmitCall& call) {
  const std::string_view name = call.node.op->name;
  const Ssa x = call.in(0);
  const auto& axes = call.a.list("axes");
  Ssa y;
  if (name == "sum") y = build::reduce(call.w, "add", x, 0, axes);
  if (name == "max") y = build::reduce(call.w, "maximum", x, lowest(x.element()), axes);
  if (name == "min") y = build::reduce(call.w, "minimum", x, highest(x.element()), axes);
  call.out(build::reshape(call.w, y, call.out_type().shape));
}

// The lowest index of those that hold the largest value; the largest is NaN where there is one. Two
// plain reductions: compilers make better code of them than of one over pairs.
static void emit_argmax(EmitCall& call) {
  Writer& w = call.w;
  const Ssa x = call.in(0);
  const int64_t axis = call.a.integer("axis");
  const Ssa largest = build::reduce(w, "maximum", x, lowest(x.element()), {axis});
  std::vector<int64_t> others;
  for (int64_t i = 0; i < x.shape().rank(); ++i) {
    if (i != axis) others.push_back(i);
  }
  const Ssa spread = build::broadcast(w, largest, x.shape(), others);
  Ssa holds = build::compare(w, Order::eq, x, spread);
  if (is_floating(x.element())) {
    const Ssa here = build::is_nan(w, x), wanted = build::is_nan(w, spread);
    const Ssa both = build::binary(w, "and", here, wanted);
    holds = build::binary(w, "or", holds, both);
  }
  const Ssa index = build::iota(w, {Element::i32, x.shape()}, axis);
  const Ssa none = build::number_like(w, index, static_cast<double>(x.shape().dim(axis)));
  const Ssa first = build::select(w, holds, index, none);
  call.out(build::reduce(w, "minimum", first, highest(Element::i32), {axis}));
}

EmitterList reduce_emitters() {
  static constexpr EmitterEntry kReduceEmitters[] = {
      {"argmax", emit_argmax},
      {"max", emit_reduce},
      {"min", emit_reduce},
      {"sum", emit_reduce},
  };
  return kReduceEmitters;
}

} // namespace dllm::pjrt::hlo::ops
