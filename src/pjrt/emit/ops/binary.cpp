// Functions of two arrays that are one StableHLO operation each, comparisons, select and clamp.

#include "pjrt/emit/build.h"
#include "pjrt/emit/ops/ops.h"

#include "graph/op.h"

#include <string_view>
#include <utility>

namespace dllm::pjrt::hlo::ops {

// add subtract multiply minimum maximum power: same names. minimum and maximum pass NaN on.
void emit_binary(EmitCall& call) {
  const Ssa x = call.in(0), y = call.in(1);
  call.out(build::binary(call.w, call.node.op->name, x, y));
}

void emit_compare(EmitCall& call) {
  using build::Order;
  static constexpr std::pair<std::string_view, Order> kOrders[] = {
      {"equal", Order::eq},      {"not_equal", Order::ne}, {"less", Order::lt},
      {"less_equal", Order::le}, {"greater", Order::gt},   {"greater_equal", Order::ge}};
  const Ssa x = call.in(0), y = call.in(1);
  for (const auto& [name, order] : kOrders) {
    if (name == call.node.op->name) return call.out(build::compare(call.w, order, x, y));
  }
}

// Bitwise on numbers; of two truth values on i1.
void emit_logical(EmitCall& call) {
  const std::string_view name = std::string_view(call.node.op->name).substr(8); // "and" "or" "xor"
  const bool truths = call.is_truth(0) && call.is_truth(1);
  const Ssa x = truths ? call.predicate(0) : call.in(0);
  const Ssa y = truths ? call.predicate(1) : call.in(1);
  call.out(build::binary(call.w, name, x, y));
}

void emit_logical_not(EmitCall& call) {
  if (call.is_truth(0)) return call.out(build::unary(call.w, "not", call.predicate(0)));
  const Ssa x = call.in(0);
  call.out(build::binary(call.w, "subtract", build::number_like(call.w, x, 1), x));
}

void emit_select(EmitCall& call) {
  const Ssa predicate = call.predicate(0);
  const bool truths = call.is_truth(1) && call.is_truth(2);
  const Ssa yes = truths ? call.predicate(1) : call.in(1);
  const Ssa no = truths ? call.predicate(2) : call.in(2);
  call.out(build::select(call.w, predicate, yes, no));
}

void emit_clamp(EmitCall& call) {
  call.out(call.w.op1("stablehlo.clamp", {call.in(0), call.in(1), call.in(2)}, call.out_type()));
}

} // namespace dllm::pjrt::hlo::ops
