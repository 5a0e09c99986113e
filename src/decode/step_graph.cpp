#include "decode/step_graph.h"

#include "base/error.h"
#include "decode/step_parts.h"

namespace dllm::decode {
namespace {

using graph::Graph;
using graph::Value;

// Classifier-free guidance. The head is affine, so u + (g + 1) (c - u) of the logits is that of the
// hidden states.
Value guide(Graph& graph, Value hidden, Value query, const StepShape& shape) {
  const auto half = static_cast<int32_t>(shape.rows * shape.window);
  const auto width = static_cast<int32_t>(shape.window);
  const Value given = graph::take(hidden, query);
  const Value plain = graph::take(hidden, graph::add(query, graph::scalar_i32(graph, half)));
  const Value row = graph::divide(query, graph::scalar_i32(graph, width));
  const Value scale = graph::take(graph.input("guidance", DType::f32, Shape{shape.rows}), row);
  const Value factor =
      graph::reshape(graph::add(scale, graph::scalar(graph, 1.0f)), {shape.capacity, 1});
  return graph::add(plain, graph::multiply(factor, graph::subtract(given, plain)));
}

graph::TokenStatisticsInputs head_inputs(model::Builder& builder, Value hidden,
                                         const StepSettings& settings, int64_t capacity) {
  Graph& graph = builder.graph();
  graph::TokenStatisticsInputs head = head_over(builder, hidden, settings);
  head.count = graph.input("count", DType::i32, Shape{});
  head.temperature = graph.input("temperature", DType::f32, Shape{capacity});
  head.top_k = graph.input("top_k", DType::i32, Shape{capacity});
  head.top_p = graph.input("top_p", DType::f32, Shape{capacity});
  head.uniform = graph.input("uniform", DType::f32, Shape{capacity});
  if (settings.noise)
    head.noise = graph.input("noise", DType::f32, Shape{capacity, builder.config().vocab_size});
  return head;
}

} // namespace

void build_step(Graph& graph, const model::Model& model, const StepSettings& settings,
                const StepShape& shape) {
  if (shape.guided && model.config().logit_softcap > 0) {
    fail_with_hint("set guidance to 0", Code::unimplemented,
                   "guidance of a model that caps its logits is not supported yet");
  }
  model::Builder builder(graph, model);
  const WindowStates made = window_states(builder, settings, shape);
  if (made.state.defined()) {
    const std::vector<StateInput> inputs = state_inputs(model.config(), shape);
    for (size_t i = 0; i < inputs.size(); ++i) graph.output(inputs[i].name, made.state.stacks[i], inputs[i].name);
  }
  if (shape.capacity == 0) return; // fills the cache
  const Value query = graph.input("query", DType::i32, Shape{shape.capacity});
  const Value chosen =
      shape.guided ? guide(graph, made.hidden, query, shape) : graph::take(made.hidden, query);
  graph::TokenStatisticsInputs head = head_inputs(builder, chosen, settings, shape.capacity);
  const graph::TokenStatistics s = graph::token_statistics(head, settings.top);
  const PredictionValues said{s.draw,    s.argmax,      s.draw_prob,     s.max_prob,
                              s.entropy, s.shaped_prob, s.shaped_margin, s.shaped_entropy,
                              s.top_ids, s.top_probs};
  graph.output("answer", prediction_lines(said, settings.columns()));
  if (settings.deferred.empty()) return;
  // The share of probability that is left without the deferred tokens.
  head.banned = graph.input("banned_or_deferred", DType::u8, Shape{model.config().vocab_size});
  const graph::TokenStatistics rest = graph::token_statistics(head, 1);
  graph.output("rest", graph::exp(graph::subtract(rest.log_sum_exp, s.log_sum_exp)));
}

} // namespace dllm::decode
