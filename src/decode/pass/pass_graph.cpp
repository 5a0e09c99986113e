#include "decode/pass/pass_program.h"

#include "base/error.h"
#include "decode/pass/sampling.h"
#include "decode/pass/shares.h"
#include "model/network/builder.h"
#include "model/network/edit_heads.h"

namespace dllm::decode {

using graph::Graph;
using graph::Value;

Value input_of(Graph& graph, const std::string& name, const graph::ValueType& type) {
  const int32_t found = graph.find_input(name);
  if (found >= 0) return graph.value(graph.inputs()[static_cast<size_t>(found)].value);
  return graph.input(name, type);
}

Value input_of(Graph& graph, const std::string& name, DType dtype, Shape shape) {
  return input_of(graph, name, {std::move(shape), dtype, {}});
}

Value row_input(model::Builder& builder, const std::string& name, DType dtype, Shape shape) {
  const graph::AxisSet axes = model::request_axes(builder.params().engine().mesh());
  return input_of(builder.graph(), name, {std::move(shape), dtype, axes});
}

std::vector<StateInput> state_inputs(const model::ModelConfig& config,
                                     const model::ParamStore& params, const PassShape& shape) {
  std::vector<StateInput> inputs;
  for (const model::StateStack& stack : model::state_stacks(config))
    inputs.push_back({"state:" + stack.name, stack.type(shape.state_size(), params)});
  return inputs;
}

namespace {

// Returns the embeddings of the window, with mixtures at the positions that have a SoftInput.
Value soft_embeddings(model::Builder& builder, Value ids, int64_t width) {
  const Shape window = ids.shape();
  model::EmbeddingMix mix;
  mix.hard = builder.embed(ids);
  mix.ids = row_input(builder, "soft_ids", DType::i32, Shape{window[0], window[1], width});
  mix.weights = row_input(builder, "soft_weights", DType::f32, Shape{window[0], window[1], width});
  mix.on = row_input(builder, "soft_on", DType::u8, window);
  return model::embedding_mix(builder, mix);
}

// Returns f32(rows, window, hidden): the conditioning at the wanted positions, zeros elsewhere.
Value conditioning_of(model::Builder& builder, const PassShape& shape) {
  const int64_t hidden = builder.config().hidden_size;
  const Value given = row_input(builder, "conditioning", DType::f32, Shape{shape.capacity, hidden});
  const Value at = row_input(builder, "conditioned_at", DType::i32, Shape{shape.capacity});
  const Value none = graph::full(builder.graph(), {shape.positions(), hidden}, 0.0f);
  return graph::reshape(graph::scatter_set(none, at, given),
                        {shape.all_rows(), shape.window, hidden});
}

model::StateValues state_values(model::Builder& builder, const PassShape& shape) {
  Graph& graph = builder.graph();
  const model::ModelConfig& config = builder.config();
  const std::vector<model::StateStack> stacks = model::state_stacks(config);
  model::StateValues state;
  for (const StateInput& input : state_inputs(config, builder.params(), shape))
    state.stacks.push_back(input_of(graph, input.name, input.type));
  const int64_t rows = shape.all_rows();
  if (model::has_positional(stacks)) {
    state.write_at = row_input(builder, "write_at", DType::i32, Shape{rows * shape.window});
    state.read_at = row_input(builder, "read_at", DType::i32, Shape{rows, shape.keys});
  }
  if (model::has_saved(stacks)) {
    state.from = row_input(builder, "from", DType::i32, Shape{rows});
    state.to = row_input(builder, "to", DType::i32, Shape{rows});
    state.length = row_input(builder, "length", DType::i32, Shape{rows});
  }
  return state;
}

} // namespace

WindowStates window_states(model::Builder& builder, const PassShape& shape, Value timesteps,
                           Value embeddings) {
  Graph& graph = builder.graph();
  const model::ModelConfig& config = builder.config();
  const int64_t rows = shape.all_rows();
  const Shape window{rows, shape.window};
  if (shape.needs.bf16_embeddings) builder.round_embeddings();
  model::ForwardInputs inputs;
  inputs.ids = row_input(builder, "ids", DType::i32, window);
  inputs.positions = row_input(builder, "positions", DType::i32, window);
  inputs.mask.and_key_limit(row_input(builder, "limit", DType::i32, window));
  if (config.canvas) {
    inputs.canvas_start = row_input(builder, "canvas_start", DType::i32, Shape{rows});
    inputs.mask.query_start = row_input(builder, "query_start", DType::i32, Shape{rows});
    if (shape.needs.conditions && shape.capacity > 0)
      inputs.conditioning = conditioning_of(builder, shape);
  } else if (!config.sliding.empty()) { // a sliding window is counted from the query's place
    inputs.slides = input_of(graph, "slides", DType::i32, Shape{});
    inputs.mask.query_start = row_input(builder, "query_start", DType::i32, Shape{rows});
  }
  if (config.time_conditioning) {
    inputs.timesteps =
        timesteps.defined() ? timesteps : row_input(builder, "timesteps", DType::f32, Shape{rows});
  }
  if (shape.parts.is_by_row)
    builder.set_row_adapters(row_input(builder, "adapter", DType::i32, Shape{rows}));
  if (config.filler.on() && shape.keys > 0 && shape.needs.mask) {
    fail_with_hint(
        "set cache to none", Code::unimplemented,
        "the model has a mask filler, which reads whole canvases, and a pass over kept K "
        "and V sees a window");
  }
  inputs.fills = shape.keys == 0;
  if (config.filler.reads_prompt && inputs.fills)
    inputs.filler_start = row_input(builder, "filler_start", DType::i32, Shape{rows});
  inputs.embeddings = embeddings;
  if (shape.soft) inputs.embeddings = soft_embeddings(builder, inputs.ids, shape.needs.soft_width);
  const bool cached = shape.keys > 0;
  if (cached) inputs.state = state_values(builder, shape);
  inputs.round_kv = !cached && config.cache_dtype != DType::f32;
  const model::ForwardOutputs made = builder.forward(inputs);
  return {graph::reshape(made.hidden, Shape{rows * shape.window, config.hidden_size}), made.state};
}

graph::TokenStatisticsInputs head_over(model::Builder& builder, Value hidden,
                                       const PassShape& shape) {
  return head_over(builder, builder.head(shape.needs.edits ? model::kSubstituteHead : "lm"), hidden,
                   shape);
}

graph::TokenStatisticsInputs head_over(model::Builder& builder, const model::Head& given,
                                       Value hidden, const PassShape& shape) {
  const PredictionNeeds& needs = shape.needs;
  const model::Head own = model::whole(given, hidden);
  graph::TokenStatisticsInputs head;
  head.x = hidden;
  head.weight = own.weight;
  head.bias = own.bias;
  if (shape.biased) {
    const Value more =
        input_of(builder.graph(), "logit_bias", DType::f32, Shape{builder.config().vocab_size});
    head.bias = own.bias.defined() ? graph::add(graph::convert(own.bias, DType::f32), more) : more;
  }
  head.scale = own.scale;
  head.softcap = own.softcap;
  const int64_t vocab = builder.config().vocab_size;
  if (shape.own_bans)
    head.banned = row_input(builder, "banned", DType::u8, Shape{shape.capacity, vocab});
  else if (shape.bans)
    head.banned = input_of(builder.graph(), "banned", DType::u8, Shape{vocab});
  head.shaped = needs.shaped;
  head.as_softmax = needs.soft_width > 0; // mixtures compute with 1 - p
  return head;
}

namespace {

// Applies classifier-free guidance to hidden states. The head is affine, so the formula
// u + (g + 1) (c - u) for logits also holds for hidden states.
Value guide(model::Builder& builder, Value hidden, Value query, const PassShape& shape) {
  Graph& graph = builder.graph();
  const auto half = static_cast<int32_t>(shape.rows * shape.window);
  const auto width = static_cast<int32_t>(shape.window);
  const Value given = graph::take(hidden, query);
  const Value plain = graph::take(hidden, graph::add(query, graph::scalar_i32(graph, half)));
  const Value row = graph::divide(query, graph::scalar_i32(graph, width));
  const Value scale =
      graph::take(row_input(builder, "guidance", DType::f32, Shape{shape.rows}), row);
  const Value factor =
      graph::reshape(graph::add(scale, graph::scalar(graph, 1.0f)), {shape.capacity, 1});
  return graph::add(plain, graph::multiply(factor, graph::subtract(given, plain)));
}

graph::TokenStatisticsInputs head_inputs(model::Builder& builder, Value hidden,
                                         const PassShape& shape) {
  const int64_t capacity = shape.capacity;
  graph::TokenStatisticsInputs head = head_over(builder, hidden, shape);
  head.count = row_input(builder, "count", DType::i32, Shape{});
  add_sampling(head, shape, [&](const char* name, DType dtype) {
    return row_input(builder, name, dtype, Shape{capacity});
  });
  head.uniform = row_input(builder, "uniform", DType::f32, Shape{capacity});
  if (shape.noise)
    head.noise =
        row_input(builder, "noise", DType::f32, Shape{capacity, builder.config().vocab_size});
  return head;
}

// Returns f32(capacity, hidden): Prediction::mean_embedding.
Value mean_embeddings(model::Builder& builder, Value hidden, Value temperature) {
  Graph& graph = builder.graph();
  const Value divisor = graph::maximum(temperature, graph::scalar(graph, 1e-6f));
  const Value logits = builder.logits(hidden);
  return builder.mean_embedding(graph::divide(logits, graph::reshape(divisor, {logits.dim(0), 1})));
}

// Returns f32(capacity): Prediction::left_probability; undefined where left_token is -1. It is
//   p(left) = p(argmax) exp(nll(argmax) - nll(left)),
// where the normalization of both likelihoods cancels. So banned tokens do not matter.
Value left_probabilities(model::Builder& builder, Value hidden, const graph::TokenStatistics& s) {
  const int64_t capacity = hidden.dim(0);
  const Value left = row_input(builder, "left_token", DType::i32, Shape{capacity});
  const Value nll = model::cross_entropy(
      builder.head(), graph::concat({hidden, hidden}, 0), graph::concat({s.argmax, left}, 0),
      graph::scalar_i32(builder.graph(), static_cast<int32_t>(2 * capacity)));
  const Value apart = graph::subtract(graph::slice_axis(nll, 0, 0, capacity),
                                      graph::slice_axis(nll, 0, capacity, 2 * capacity));
  return graph::multiply(s.max_prob, graph::exp(apart));
}

// Returns the columns of EditPrediction. `head` is the head of substitutes with all its inputs.
std::vector<Value> edit_columns(model::Builder& builder, graph::TokenStatisticsInputs head) {
  const model::Head insert = builder.head(model::kInsertHead);
  const Value rates = model::edit_rates(builder, head.x);
  head.weight = insert.weight;
  head.bias = insert.bias;
  head.scale = insert.scale;
  head.softcap = insert.softcap;
  head.uniform = row_input(builder, "insert_uniform", DType::f32, head.uniform.shape());
  const graph::TokenStatistics s = graph::token_statistics(head, 1);
  return {s.draw, s.draw_prob, rates};
}

} // namespace

PredictionValues prediction_values(const graph::TokenStatistics& s) {
  return {s.draw,        s.argmax,        s.draw_prob,      s.max_prob, s.entropy,
          s.shaped_prob, s.shaped_margin, s.shaped_entropy, s.top_ids,  s.top_probs};
}

void build_pass(Graph& graph, const model::Model& model, const PassShape& shape) {
  const PredictionNeeds& needs = shape.needs;
  if (shape.guided && model.config().logit_softcap > 0) {
    fail_with_hint("set guidance to 0", Code::unimplemented,
                   "guidance of a model that caps its logits is not supported yet");
  }
  model::Builder builder(graph, model, shape.parts.list);
  const graph::Mesh& mesh = model.engine().mesh();
  const WindowStates made = window_states(builder, shape);
  if (made.state.defined()) {
    const std::vector<StateInput> inputs = state_inputs(model.config(), model.params(), shape);
    for (size_t i = 0; i < inputs.size(); ++i)
      graph.output(inputs[i].name, made.state.stacks[i], inputs[i].name);
  }
  if (shape.capacity == 0) return; // the pass only fills the cache
  const Value query = row_input(builder, "query", DType::i32, Shape{shape.capacity});
  const Value chosen =
      shape.guided ? guide(builder, made.hidden, query, shape) : graph::take(made.hidden, query);
  graph::TokenStatisticsInputs head = head_inputs(builder, chosen, shape);
  const graph::TokenStatistics s = graph::token_statistics(head, needs.listed());
  const std::vector<Value> more = needs.edits ? edit_columns(builder, head) : std::vector<Value>{};
  const Value lines = prediction_lines(prediction_values(s), PredictionColumns(needs), more);
  graph.output("answer", gather_shares(lines, mesh));
  if (shape.defers) {
    // The probability of the draw among the tokens that are not deferred. It is the probability of
    // the draw divided by the probability of these tokens, in logarithms. If the former is below
    // the smallest float, it is that of the likeliest other token when the draw is this token, else
    // 0.
    const int64_t vocab = model.config().vocab_size;
    head.banned = shape.own_bans ? row_input(builder, "banned_or_deferred", DType::u8,
                                             Shape{shape.capacity, vocab})
                                 : graph.input("banned_or_deferred", DType::u8, Shape{vocab});
    const graph::TokenStatistics rest = graph::token_statistics(head, 1);
    const Value none = graph::full(graph, s.draw_prob.shape(), 0.0f);
    const Value in_logs = graph::exp(
        graph::add(graph::log(s.draw_prob), graph::subtract(s.log_sum_exp, rest.log_sum_exp)));
    const Value likeliest = graph::select(graph::equal(s.draw, rest.argmax), rest.max_prob, none);
    const Value share = graph::select(graph::greater(s.draw_prob, none), in_logs, likeliest);
    graph.output("rest", gather_shares(graph::minimum(share, graph::scalar(graph, 1.0f)), mesh));
  }
  if (needs.looks_left)
    graph.output("left", gather_shares(left_probabilities(builder, chosen, s), mesh));
  if (needs.conditions)
    graph.output("mean_embedding",
                 gather_shares(mean_embeddings(builder, chosen, head.temperature), mesh));
}

} // namespace dllm::decode
