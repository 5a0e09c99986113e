// dot: batched products (.., m, k) x (.., k, n). With compute bf16 the operands are rounded to bf16
// and summed in f32; else they are multiplied with the chosen precision.

#include "pjrt/emit/scope.h"

#include "graph/op.h"

#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace dllm::pjrt::hlo::ops {
namespace {

struct Factor {
  Ssa value;
  int64_t contracted; // axis that is summed over
};

bool swaps_last_two(const std::vector<int64_t>& permutation) {
  const auto rank = static_cast<int64_t>(permutation.size());
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t wanted = i < rank - 2 ? i : 2 * rank - 3 - i;
    if (permutation[static_cast<size_t>(i)] != wanted) return false;
  }
  return rank >= 2;
}

// An operand; one that is the transpose of another array is read where that stands.
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

} // namespace dllm::pjrt::hlo::ops
