#include "decode/step_graph.h"

#include "base/error.h"
#include "graph/ops.h"
#include "model/embedding_mix.h"

namespace dllm::decode {
namespace {

using graph::Graph;
using graph::Value;

// Embeddings of the window, mixed where the request says so.
Value soft_embeddings(Graph& graph, model::Builder& builder, Value ids, int64_t width) {
  const Shape window = ids.shape();
  model::EmbeddingMix mix;
  mix.hard = builder.embed(ids);
  mix.ids = graph.input("soft_ids", DType::i32, Shape{window[0], window[1], width});
  mix.weights = graph.input("soft_weights", DType::f32, Shape{window[0], window[1], width});
  mix.on = graph.input("soft_on", DType::u8, window);
  return model::embedding_mix(builder, mix);
}

model::KvCache cache_inputs(Graph& graph, const model::ModelConfig& config,
                            const StepShape& shape) {
  const Shape kept{config.layers * shape.cache_rows, config.kv_size()};
  model::KvCache cache;
  cache.keys = graph.input("keys", config.cache_dtype, kept);
  cache.values = graph.input("values", config.cache_dtype, kept);
  cache.write_at = graph.input("write_at", DType::i32, Shape{shape.all_rows() * shape.window});
  cache.read_at = graph.input("read_at", DType::i32, Shape{shape.all_rows(), shape.keys});
  return cache;
}

// Hidden states of the whole window, (rows * window, hidden).
Value run_model(Graph& graph, model::Builder& builder, const StepSettings& settings,
                const StepShape& shape) {
  const model::ModelConfig& config = builder.config();
  const int64_t rows = shape.all_rows();
  const Shape window{rows, shape.window};
  model::ForwardInputs inputs;
  inputs.ids = graph.input("ids", DType::i32, window);
  inputs.positions = graph.input("positions", DType::i32, window);
  inputs.mask.and_key_limit(graph.input("limit", DType::i32, window));
  if (!config.sliding.empty()) { // windows count from a query's own place
    inputs.slides = graph.input("slides", DType::i32, Shape{});
    inputs.mask.query_start = graph.input("query_start", DType::i32, Shape{rows});
  }
  if (config.time_conditioning)
    inputs.timesteps = graph.input("timesteps", DType::f32, Shape{rows});
  if (shape.soft)
    inputs.embeddings = soft_embeddings(graph, builder, inputs.ids, settings.soft_width);
  const bool cached = shape.keys > 0;
  if (cached) inputs.cache = cache_inputs(graph, config, shape);
  inputs.round_kv = !cached && config.cache_dtype == DType::bf16;
  const model::ForwardOutputs made = builder.forward(inputs);
  if (cached) {
    graph.output("keys", made.cache.keys, "keys");
    graph.output("values", made.cache.values, "values");
  }
  return graph::reshape(made.hidden, Shape{rows * shape.window, config.hidden_size});
}

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

graph::TokenStatisticsInputs head_inputs(Graph& graph, model::Builder& builder, Value hidden,
                                         const StepSettings& settings, int64_t capacity) {
  const int64_t vocab = builder.config().vocab_size;
  const model::Head own = builder.head();
  graph::TokenStatisticsInputs head;
  head.x = hidden;
  head.weight = own.weight;
  head.bias = own.bias;
  head.scale = own.scale;
  head.softcap = own.softcap;
  head.count = graph.input("count", DType::i32, Shape{});
  head.temperature = graph.input("temperature", DType::f32, Shape{capacity});
  head.top_k = graph.input("top_k", DType::i32, Shape{capacity});
  head.top_p = graph.input("top_p", DType::f32, Shape{capacity});
  head.uniform = graph.input("uniform", DType::f32, Shape{capacity});
  if (settings.noise) head.noise = graph.input("noise", DType::f32, Shape{capacity, vocab});
  if (!settings.banned.empty()) head.banned = graph.input("banned", DType::u8, Shape{vocab});
  head.nucleus_first = settings.nucleus_first;
  head.shaped = settings.shaped;
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
  const Value hidden = run_model(graph, builder, settings, shape);
  const Value query = graph.input("query", DType::i32, Shape{shape.capacity});
  const Value chosen =
      shape.guided ? guide(graph, hidden, query, shape) : graph::take(hidden, query);
  graph::TokenStatisticsInputs head = head_inputs(graph, builder, chosen, settings, shape.capacity);
  const graph::TokenStatistics s = graph::token_statistics(head, settings.top);
  graph.output("draw", s.draw);
  graph.output("draw_prob", s.draw_prob);
  graph.output("argmax", s.argmax);
  graph.output("max_prob", s.max_prob);
  graph.output("entropy", s.entropy);
  graph.output("shaped_prob", s.shaped_prob);
  graph.output("shaped_margin", s.shaped_margin);
  graph.output("shaped_entropy", s.shaped_entropy);
  graph.output("top_ids", s.top_ids);
  graph.output("top_probs", s.top_probs);
  if (settings.deferred.empty()) return;
  // The share of probability that is left without the deferred tokens.
  head.banned = graph.input("banned_or_deferred", DType::u8, Shape{model.config().vocab_size});
  const graph::TokenStatistics rest = graph::token_statistics(head, 1);
  graph.output("rest", graph::exp(graph::subtract(rest.log_sum_exp, s.log_sum_exp)));
}

} // namespace dllm::decode
