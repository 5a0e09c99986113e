// Emitters of scan and while, which both become stablehlo.while. The body uses values that do not
// change from step to step directly from outside, so the loop does not carry them.

#include "pjrt/emit/emit.h"

#include "graph/ops/scan.h"

namespace dllm::pjrt::hlo::ops {
namespace {

using build::Order;
using graph::Graph;
using graph::ops::ScanPlan;

const Type kCounter{Element::i32, Shape{}};

std::vector<Type> types_of(const Ssas& values) {
  std::vector<Type> types;
  for (const Ssa& value : values) types.push_back(value.type);
  return types;
}

Slot plain_slot(const Ssa& value) {
  return {value, {}, {}, {}};
}

// Returns the begin of a row in every axis: the index of the row, then zeros.
Ssas row_begin(Writer& w, const Ssa& index, const Shape& stacked) {
  Ssas begin{index};
  for (int64_t i = 1; i < stacked.rank(); ++i) begin.push_back(w.splat(kCounter, 0));
  return begin;
}

} // namespace

Ssa read_row(Writer& w, const Ssa& stacked, const Ssa& index) {
  Ssas operands{stacked};
  for (const Ssa& begin : row_begin(w, index, stacked.shape())) operands.push_back(begin);
  const Shape one = stacked.shape().with_dim(0, 1);
  const Ssa row = w.op1("stablehlo.dynamic_slice", operands, {stacked.element(), one},
                        "slice_sizes = " + array_text(one.dims()));
  return build::reshape(w, row, stacked.shape().without(0));
}

Ssa write_row(Writer& w, const Ssa& stacked, const Ssa& row, const Ssa& index) {
  Ssas operands{stacked, build::reshape(w, row, row.shape().with_front(1))};
  for (const Ssa& begin : row_begin(w, index, stacked.shape())) operands.push_back(begin);
  return w.op1("stablehlo.dynamic_update_slice", operands, stacked.type);
}

namespace {

// Writes one step. The values of the loop are the step number, the carries, the stacked results.
Ssas scan_step(EmitCall& call, const ScanPlan& plan, const Ssas& values) {
  Writer& w = call.w;
  const Graph& body = *call.node.bodies[0];
  const Ssa& step = values[0];
  // The index of the row goes up from begin, or down from end - 1.
  const Ssa index =
      plan.reverse      ? build::binary(w, "subtract",
                                        w.number(kCounter, static_cast<double>(plan.end - 1)), step)
      : plan.begin == 0 ? step
                        : build::with(w, "add", step, static_cast<double>(plan.begin));
  std::vector<Slot> inputs;
  for (size_t i = 0; i < plan.inputs(); ++i) {
    if (plan.is_carry(i)) {
      inputs.push_back(plain_slot(values[1 + i]));
    } else if (plan.is_per_layer(i)) {
      inputs.push_back(plain_slot(read_row(w, call.in(i), index)));
    } else {
      inputs.push_back(call.slot(i));
    }
  }
  Scope inside(body, w, call.options());
  inside.write(inputs);
  Ssas next{build::with(w, "add", step, 1)};
  for (size_t i = 0; i < body.outputs().size(); ++i) {
    const Ssa made = inside.plain(body.outputs()[i].value);
    next.push_back(i < plan.carry ? made : write_row(w, values[1 + i], made, index));
  }
  return next;
}

} // namespace

static void emit_scan(EmitCall& call) {
  Writer& w = call.w;
  const ScanPlan plan(call.a);
  const size_t results = call.node.outputs.size();
  Ssas start{w.splat(kCounter, 0)};
  for (size_t i = 0; i < results; ++i)
    start.push_back(i < plan.carry ? call.in(i) : w.splat(call.out_type(i), 0));
  Ssas made = start;
  if (plan.end > plan.begin) {
    // Operands in i1 form are converted before the loop; inside, every step would convert them.
    for (size_t i = 0; i < plan.inputs(); ++i) {
      if (plan.is_per_layer(i)) call.in(i);
    }
    const auto steps = static_cast<double>(plan.end - plan.begin);
    const std::vector<Type> types = types_of(start);
    const Region cond{types, [&](const Ssas& values) {
                        return Ssas{build::compare_with(w, Order::lt, values[0], steps)};
                      }};
    const Region body{types, [&](const Ssas& values) { return scan_step(call, plan, values); }};
    made = w.op("stablehlo.while", start, types, {}, {cond, body});
  }
  for (size_t i = 0; i < results; ++i) call.out(i, made[1 + i]);
}

static void emit_while(EmitCall& call) {
  Writer& w = call.w;
  const size_t state = call.node.outputs.size();
  Ssas start;
  for (size_t i = 0; i < state; ++i) start.push_back(call.in(i));
  const auto slots = [&](const Ssas& values) {
    std::vector<Slot> inputs;
    for (size_t i = 0; i < call.node.inputs.size(); ++i)
      inputs.push_back(i < state ? plain_slot(values[i]) : call.slot(i));
    return inputs;
  };
  const Region cond{types_of(start), [&](const Ssas& values) {
                      const Graph& graph = *call.node.bodies[0];
                      Scope inside(graph, w, call.options());
                      inside.write(slots(values));
                      return Ssas{inside.predicate(graph.outputs()[0].value)};
                    }};
  const Region body{types_of(start), [&](const Ssas& values) {
                      Scope inside(*call.node.bodies[1], w, call.options());
                      inside.write(slots(values));
                      return inside.plain_outputs();
                    }};
  const Ssas made = w.op("stablehlo.while", start, types_of(start), {}, {cond, body});
  for (size_t i = 0; i < state; ++i) call.out(i, made[i]);
}

EmitterList loops_emitters() {
  static constexpr EmitterEntry kLoopsEmitters[] = {
      {"scan", emit_scan},
      {"while", emit_while},
  };
  return kLoopsEmitters;
}

} // namespace dllm::pjrt::hlo::ops
