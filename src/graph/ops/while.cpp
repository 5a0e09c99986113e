// while: repeats a body while cond(state) is not 0. It has no gradient, because data decide the
// number of steps.

#include "graph/ops/build.h"

#include "base/error.h"

namespace dllm::graph {
namespace {

using namespace ops;

// Returns the axes over which a graph and its bodies exchange arrays.
AxisSet communication_axes(const Graph& graph) {
  AxisSet axes;
  for (const Node& node : graph.nodes()) {
    const std::string_view name = node.op->name;
    if (name == "all_reduce" || name == "all_reduce_max") {
      for (int64_t axis : node.attributes.list("axes"))
        axes = axes.with(AxisSet(static_cast<Axis>(axis)));
    } else if (name == "all_gather" || name == "reduce_scatter" || name == "all_to_all" ||
               name == "permute" || name.starts_with("ring_attention")) {
      axes = axes.with(AxisSet(static_cast<Axis>(node.attributes.integer("axis"))));
    }
    for (const auto& body : node.bodies) axes = axes.with(communication_axes(*body));
  }
  return axes;
}

void expect_body(const OpCall& call, const Graph& body, size_t outputs) {
  if (body.inputs().size() != call.inputs.size()) {
    fail_op(call, fmt::format("graph {} takes {} inputs, but state and consts are {}", body.name(),
                              body.inputs().size(), call.inputs.size()));
  }
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const ValueType& wanted = body.type(body.inputs()[i].value);
    if (wanted == call.inputs[i]) continue;
    fail_op(call, fmt::format("graph {} takes {} {}, got {}", body.name(), body.inputs()[i].name,
                              wanted.text(), call.inputs[i].text()));
  }
  if (body.outputs().size() != outputs) {
    fail_op(call, fmt::format("graph {} gives {} results, expected {}", body.name(),
                              body.outputs().size(), outputs));
  }
}

Types while_types(const OpCall& call) {
  const auto state = static_cast<size_t>(call.attributes.integer("state"));
  const auto consts = static_cast<size_t>(call.attributes.integer("consts"));
  expect_inputs(call, state + consts);
  if (call.bodies.size() != 2) fail_op(call, "takes a condition and a body");
  const Graph& cond = *call.bodies[0];
  const Graph& body = *call.bodies[1];
  expect_body(call, cond, 1);
  expect_body(call, body, state);
  const ValueType& decision = cond.type(cond.outputs()[0].value);
  if (decision.dtype != DType::u8 || decision.shape.rank() != 0) {
    fail_op(call,
            fmt::format("condition {} gives {}, expected u8()", cond.name(), decision.text()));
  }
  const AxisSet talks = communication_axes(body).with(communication_axes(cond));
  const AxisSet differs = decision.axes.without(decision.axes.without(talks));
  if (!differs.empty()) {
    fail_op(call, fmt::format("condition {} varies over {}, over which loop {} communicates, so "
                              "ranks would wait forever: all_reduce the condition",
                              cond.name(), differs.text(), body.name()));
  }
  Types results;
  for (size_t i = 0; i < state; ++i) {
    const ValueType& next = body.type(body.outputs()[i].value);
    if (!(next == call.inputs[i])) {
      fail_op(call,
              fmt::format("state {} of loop {} enters as {} and leaves as {}",
                          body.inputs()[i].name, body.name(), call.inputs[i].text(), next.text()));
    }
    // Ranks that stop at different steps have different states, so the state must vary.
    ValueType result = next;
    result.axes = result.axes.with(decision.axes);
    if (!(result == next)) {
      fail_op(call, fmt::format("condition {} varies over {}, but state {} is {}", cond.name(),
                                decision.axes.text(), body.inputs()[i].name, next.text()));
    }
    results.push_back(result);
  }
  return results;
}

constexpr OpDef kWhileOps[] = {{.name = "while", .infer = while_types, .own_axes = true}};

} // namespace

namespace ops {
std::span<const OpDef> while_ops() {
  return kWhileOps;
}
} // namespace ops

std::vector<Value> while_loop(std::shared_ptr<const Graph> cond, std::shared_ptr<const Graph> body,
                              const std::vector<Value>& state, const std::vector<Value>& consts) {
  if (state.empty()) fail(Code::invalid_argument, "[while] loop {} has no state", body->name());
  std::vector<Value> inputs = state;
  inputs.insert(inputs.end(), consts.begin(), consts.end());
  for (size_t i = 0; i < inputs.size() && i < body->inputs().size(); ++i) {
    inputs[i] = vary(inputs[i], body->type(body->inputs()[i].value).axes);
  }
  return state[0].graph->add(find_op("while"), inputs,
                             {{"state", static_cast<int64_t>(state.size())},
                              {"consts", static_cast<int64_t>(consts.size())}},
                             {std::move(cond), std::move(body)});
}

} // namespace dllm::graph
