// Operations that only move elements. Truth values are moved as i1.

#include "pjrt/emit/scope.h"

#include <fmt/format.h>

namespace dllm::pjrt::hlo::ops {

// numpy's rule: trailing axes align, an extent of 1 repeats. StableHLO does the same, given where
// each axis goes.
static void emit_broadcast(EmitCall& call) {
  const Ssa x = call.moved(0);
  const Shape shape = call.out_type().shape;
  if (x.shape() == shape) return call.out(x);
  const int64_t extra = shape.rank() - x.shape().rank();
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < x.shape().rank(); ++i) axes.push_back(extra + i);
  call.out(build::broadcast(call.w, x, shape, axes));
}

static void emit_reshape(EmitCall& call) {
  call.out(build::reshape(call.w, call.moved(0), call.out_type().shape));
}

static void emit_transpose(EmitCall& call) {
  const Ssa x = call.moved(0);
  call.out(call.w.op1("stablehlo.transpose", {x}, {x.element(), call.out_type().shape},
                      "permutation = " + array_text(call.a.list("permutation"))));
}

static void emit_slice(EmitCall& call) {
  call.out(build::slice(call.w, call.moved(0), call.a.list("begin"), call.a.list("end")));
}

static void emit_pad(EmitCall& call) {
  const Ssa x = call.in(0), fill = call.in(1);
  call.out(build::pad(call.w, x, fill, call.a.list("low"), call.a.list("high")));
}

static void emit_concat(EmitCall& call) {
  bool truths = true;
  for (size_t i = 0; i < call.node.inputs.size(); ++i) truths = truths && call.is_truth(i);
  Ssas parts;
  for (size_t i = 0; i < call.node.inputs.size(); ++i)
    parts.push_back(truths ? call.predicate(i) : call.in(i));
  call.out(call.w.op1("stablehlo.concatenate", parts, {parts[0].element(), call.out_type().shape},
                      fmt::format("dimension = {} : i64", call.a.integer("axis"))));
}

static void emit_reverse(EmitCall& call) {
  const Ssa x = call.moved(0);
  call.out(call.w.op1("stablehlo.reverse", {x}, x.type,
                      "dimensions = " + array_text({call.a.integer("axis")})));
}

// Begins are clamped so that the window fits, here as in the graph.
static void emit_dynamic_slice(EmitCall& call) {
  Ssas operands;
  for (size_t i = 0; i < call.node.inputs.size(); ++i) operands.push_back(call.in(i));
  call.out(call.w.op1("stablehlo.dynamic_slice", operands, call.out_type(),
                      "slice_sizes = " + array_text(call.a.list("size"))));
}

static void emit_dynamic_update_slice(EmitCall& call) {
  Ssas operands;
  for (size_t i = 0; i < call.node.inputs.size(); ++i) operands.push_back(call.in(i));
  call.out(call.w.op1("stablehlo.dynamic_update_slice", operands, call.out_type()));
}

EmitterList movement_emitters() {
  static constexpr EmitterEntry kMovementEmitters[] = {
      {"broadcast", emit_broadcast},
      {"concat", emit_concat},
      {"dynamic_slice", emit_dynamic_slice},
      {"dynamic_update_slice", emit_dynamic_update_slice},
      {"pad", emit_pad},
      {"reshape", emit_reshape},
      {"reverse", emit_reverse},
      {"slice", emit_slice},
      {"transpose", emit_transpose},
  };
  return kMovementEmitters;
}

} // namespace dllm::pjrt::hlo::ops
