#include "decode/loop/step_loop.h"

#include "graph/ops.h"

#include <algorithm>

namespace dllm::decode {

using graph::Graph;
using graph::Value;

namespace {

std::shared_ptr<Graph> condition_of(const StepLoop& loop) {
  const Graph& body = *loop.body;
  auto cond = std::make_shared<Graph>("denoise_more");
  for (const graph::GraphInput& input : body.inputs())
    cond->input(input.name, body.type(input.value), input.is_parameter);
  cond->output("more", loop.goes_on([&](const char* name) {
    return cond->value(cond->inputs()[static_cast<size_t>(cond->find_input(name))].value);
  }));
  return cond;
}

Value filled(Graph& graph, const graph::ValueType& type, int32_t number) {
  const Value one = type.dtype == DType::f32 ? graph::scalar(graph, static_cast<float>(number))
                                             : graph::scalar_i32(graph, number);
  return graph::broadcast(one, type.shape);
}

// Returns the input of the program that the body's input is.
Value outer_input(Graph& graph, const graph::GraphInput& input, const graph::ValueType& type) {
  const int32_t found = graph.find_input(input.name);
  if (found >= 0) return graph.value(graph.inputs()[static_cast<size_t>(found)].value);
  return graph.input(input.name, type, input.is_parameter);
}

} // namespace

Value LoopEnd::value(const std::string& name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  return values_.at(static_cast<size_t>(found - names_.begin()));
}

LoopEnd add_loop(Graph& graph, const StepLoop& loop) {
  std::vector<Value> state, consts;
  for (const graph::GraphInput& input : loop.body->inputs()) {
    const graph::ValueType& type = loop.body->type(input.value);
    if (const auto given = loop.given.find(input.name); given != loop.given.end()) {
      consts.push_back(given->second);
      continue;
    }
    const bool is_state = state.size() < loop.state.size();
    const std::optional<int32_t> number = is_state ? loop.begin(input.name) : std::nullopt;
    (is_state ? state : consts)
        .push_back(number ? filled(graph, type, *number) : outer_input(graph, input, type));
  }
  return {loop.state, graph::while_loop(condition_of(loop), loop.body, state, consts)};
}

} // namespace dllm::decode
