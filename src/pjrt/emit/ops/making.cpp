// constant, iota, stop_gradient, vary, barrier: values made, or passed on as they are.

#include "pjrt/emit/build.h"
#include "pjrt/emit/ops/ops.h"

namespace dllm::pjrt::hlo::ops {

void emit_constant(EmitCall& call) {
  call.out(call.w.constant(call.node.literal));
}

void emit_iota(EmitCall& call) {
  call.out(build::iota(call.w, call.out_type(), call.a.integer("axis")));
}

void emit_same(EmitCall& call) {
  call.out_slot(0) = call.slot(0);
}

void emit_barrier(EmitCall& call) {
  call.out(call.w.op1("stablehlo.optimization_barrier", {call.in(0)}, call.out_type()));
}

} // namespace dllm::pjrt::hlo::ops
