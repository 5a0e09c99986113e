// Emitters of reductions: dot, a batched product (.., m, k) x (.., k, n), and sum, max, min and
// argmax along axes. With compute bf16 the operands of dot are rounded to bf16 and the products
// summed in f32; else option precision decides.
#include "pjrt/emit/emit.h"

#include "graph/op.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace dllm::pjrt::hlo::ops {

namespace {

struct Factor {
  Ssa value;
  int64_t contracted; // the axis that is summed over
};

bool swaps_last_two(const std::vector<int64_t>& permutation) {
  const auto rank = static_cast<int64_t>(permutation.size());
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t wanted = i < rank - 2 ? i : 2 * rank - 3 - i;
    if (permutation[static_cast<size_t>(i)] != wanted) return false;
  }
  return rank >= 2;
}

// Returns an operand of dot. For a transposed array it returns the array before transposing and the
// contracted axis of that array.
Factor factor(EmitCall& call, size_t index, int64_t contracted) {
  Slot* slot = &call.slot(index);
  Ssa value = call.in(index);
  const graph::Node* made = call.producer(index);
  if (made != nullptr && std::string_view(made->op->name) == "transpose" &&
      swaps_last_two(made->attributes.list("permutation"))) {
    slot = &call.scope().slot(made->inputs[0]);
    value = call.scope().plain(made->inputs[0]);
    contracted = 2 * value.shape().rank() - 3 - contracted;
  }
  if (call.options().compute == DType::bf16) {
    if (!slot->narrow.defined()) return {build::convert(call.w, value, Element::bf16), contracted};
    value = slot->narrow;
  }
  return {value, contracted};
}

const char* precision_name(const EmitOptions& options) {
  if (options.compute == DType::bf16 || options.precision == "default") return "DEFAULT";
  return options.precision == "high" ? "HIGH" : "HIGHEST";
}

} // namespace

static void emit_dot(EmitCall& call) {
  const int64_t rank = call.out_type().shape.rank();
  const Factor x = factor(call, 0, rank - 1), y = factor(call, 1, rank - 2);
  std::vector<int64_t> batch;
  for (int64_t i = 0; i < rank - 2; ++i) batch.push_back(i);
  call.out(call.w.op1(
      "stablehlo.dot_general", {x.value, y.value}, call.out_type(),
      fmt::format("dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {0}, "
                  "rhs_batching_dimensions = {0}, lhs_contracting_dimensions = [{1}], "
                  "rhs_contracting_dimensions = [{2}]>, precision_config = [#stablehlo<precision "
                  "{3}>, #stablehlo<precision {3}>]",
                  list_text(batch), x.contracted, y.contracted, precision_name(call.options()))));
}

EmitterList dot_emitters() {
  static constexpr EmitterEntry kDotEmitters[] = {
      {"dot", emit_dot},
  };
  return kDotEmitters;
}

namespace {

using build::Order;

// Bit patterns of the numbers from which max and min start.
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

// Writes the lowest index of the largest value, where NaN counts as the largest. Uses two plain
// reductions, because compilers make worse code of one reduction over pairs.
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
