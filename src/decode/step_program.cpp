#include "decode/step_program.h"

#include "base/error.h"
#include "decode/step_feed.h"
#include "graph/ops.h"
#include "model/embedding_mix.h"

#include <algorithm>
#include <bit>

namespace dllm::decode {

using graph::Graph;
using graph::Value;

struct StepProgram::Entry {
  Key key;
  std::shared_ptr<graph::Program> program;
};

namespace {

constexpr size_t kPrograms = 12;
constexpr int64_t kLeastCapacity = 16, kKeyStep = 64;

// The next of 1, 2, 3, 4, 6, 8, 12, 16, ... steps: at most half of a program is padding.
int64_t round_up(int64_t count, int64_t step) {
  const auto units = static_cast<uint64_t>(std::max<int64_t>(1, (count + step - 1) / step));
  const uint64_t power = std::bit_ceil(units);
  return static_cast<int64_t>(power >= 4 && units <= power / 4 * 3 ? power / 4 * 3 : power) * step;
}

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

} // namespace

StepProgram::StepProgram(std::shared_ptr<model::Model> model, StepSettings settings)
    : model_(std::move(model)), settings_(std::move(settings)) {}

StepProgram::~StepProgram() = default;

void StepProgram::set_noise(bool noise) {
  settings_.noise = noise;
  programs_.clear();
}

int StepProgram::kind_of(const Ask& ask) {
  return (ask.cached ? 1 : 0) | (ask.unconditional.empty() ? 0 : 2) | (ask.soft.empty() ? 0 : 4);
}

StepProgram::Key StepProgram::key_of(std::span<const PassRow> rows, const DecodeState& state,
                                     int64_t capacity) const {
  const Ask& first = *rows[0].ask;
  Key key{round_up(static_cast<int64_t>(rows.size()), 1),
          0,
          capacity,
          0,
          0,
          !first.unconditional.empty(),
          !first.soft.empty()};
  int64_t keys = 0, queries = 0;
  for (const PassRow& row : rows) {
    const Ask& ask = *row.ask;
    key.window = std::max(key.window, ask.end - ask.begin);
    queries += static_cast<int64_t>(ask.positions.size());
    // The last position sees farthest.
    const int64_t sight = ask.sight_end < 0 ? row.slot->length() : ask.sight_end;
    keys = std::max(keys, std::min(row.slot->sight.limit(ask.end - 1), sight));
  }
  key.window =
      std::min(round_up(key.window, 8), std::max(model_->config().max_positions, key.window));
  key.capacity = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max({capacity, queries, kLeastCapacity}))));
  if (first.cached) {
    key.keys = std::min(round_up(keys, kKeyStep), state.capacity());
    key.cache_rows = state.rows() * state.capacity();
  }
  return key;
}

void StepProgram::build(Graph& graph, const Key& key) const {
  const model::ModelConfig& config = model_->config();
  const int64_t rows = key.guided ? 2 * key.rows : key.rows;
  const Shape window{rows, key.window};
  model::Builder builder(graph, *model_);
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
  if (key.soft)
    inputs.embeddings = soft_embeddings(graph, builder, inputs.ids, settings_.soft_width);
  inputs.round_kv = key.keys == 0 && config.cache_dtype == DType::bf16;
  if (key.keys > 0) {
    const int64_t kept = config.layers * key.cache_rows;
    const DType dtype = config.cache_dtype;
    inputs.cache.keys = graph.input("keys", dtype, Shape{kept, config.kv_size()});
    inputs.cache.values = graph.input("values", dtype, Shape{kept, config.kv_size()});
    inputs.cache.write_at = graph.input("write_at", DType::i32, Shape{rows * key.window});
    inputs.cache.read_at = graph.input("read_at", DType::i32, Shape{rows, key.keys});
  }
  const model::ForwardOutputs made = builder.forward(inputs);
  if (key.keys > 0) {
    graph.output("keys", made.cache.keys, "keys");
    graph.output("values", made.cache.values, "values");
  }
  Value hidden = graph::reshape(made.hidden, Shape{rows * key.window, config.hidden_size});
  const Value query = graph.input("query", DType::i32, Shape{key.capacity});
  Value chosen = graph::take(hidden, query); // (capacity, hidden)
  if (key.guided) {
    if (config.logit_softcap > 0)
      fail(Code::unimplemented, "guidance of a model that caps its logits is not supported yet");
    // The head is affine, so u + (g + 1) (c - u) of the logits is that of the hidden states.
    const auto half = static_cast<int32_t>(key.rows * key.window);
    const Value plain = graph::take(hidden, graph::add(query, graph::scalar_i32(graph, half)));
    const Value row =
        graph::divide(query, graph::scalar_i32(graph, static_cast<int32_t>(key.window)));
    const Value scale = graph::take(graph.input("guidance", DType::f32, Shape{key.rows}), row);
    const Value factor =
        graph::reshape(graph::add(scale, graph::scalar(graph, 1.0f)), {key.capacity, 1});
    chosen = graph::add(plain, graph::multiply(factor, graph::subtract(chosen, plain)));
  }
  graph::TokenStatisticsInputs head;
  head.x = chosen;
  head.weight = builder.head().weight;
  head.bias = builder.head().bias;
  head.scale = builder.head().scale;
  head.softcap = builder.head().softcap;
  head.count = graph.input("count", DType::i32, Shape{});
  head.temperature = graph.input("temperature", DType::f32, Shape{key.capacity});
  head.top_k = graph.input("top_k", DType::i32, Shape{key.capacity});
  head.top_p = graph.input("top_p", DType::f32, Shape{key.capacity});
  head.uniform = graph.input("uniform", DType::f32, Shape{key.capacity});
  if (settings_.noise)
    head.noise = graph.input("noise", DType::f32, Shape{key.capacity, config.vocab_size});
  if (!settings_.banned.empty())
    head.banned = graph.input("banned", DType::u8, Shape{config.vocab_size});
  head.nucleus_first = settings_.nucleus_first;
  head.shaped = settings_.shaped;
  const graph::TokenStatistics s = graph::token_statistics(head, settings_.top);
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
  if (settings_.deferred.empty()) return;
  head.banned = graph.input("banned_or_deferred", DType::u8, Shape{config.vocab_size});
  const graph::TokenStatistics rest = graph::token_statistics(head, 1);
  graph.output("rest", graph::exp(graph::subtract(rest.log_sum_exp, s.log_sum_exp)));
}

StepProgram::Entry& StepProgram::compiled(const Key& key) {
  const auto found = std::find_if(programs_.begin(), programs_.end(),
                                  [&](const auto& entry) { return entry->key == key; });
  if (found != programs_.end()) {
    programs_.splice(programs_.begin(), programs_, found);
    return *programs_.front();
  }
  auto graph = std::make_shared<Graph>("denoise");
  build(*graph, key);
  programs_.push_front(
      std::make_unique<Entry>(Entry{key, model_->engine().compile(std::move(graph))}));
  if (programs_.size() > kPrograms) programs_.pop_back();
  return *programs_.front();
}

std::vector<std::vector<Prediction>> StepProgram::run(std::span<const PassRow> rows,
                                                      DecodeState& state, int64_t capacity,
                                                      const Task* task) {
  const Key key = key_of(rows, state, capacity);
  Entry& entry = compiled(key);
  const FeedShape shape{key.rows, key.window, key.capacity, key.keys, key.guided, key.soft};
  const Batch arrays = step_feed(model_->config(), settings_, shape, rows, state);
  const std::vector<graph::BufferRef> parameters = model_->params().snapshot();
  std::vector<graph::BufferRef> inputs;
  size_t next_parameter = 0;
  KvBuffers kept;
  if (key.keys > 0) kept = state.lend();
  for (const graph::GraphInput& input : entry.program->graph().inputs()) {
    if (input.is_parameter)
      inputs.push_back(parameters[next_parameter++]);
    else if (key.keys > 0 && input.name == "keys")
      inputs.push_back(std::move(kept.keys));
    else if (key.keys > 0 && input.name == "values")
      inputs.push_back(std::move(kept.values));
    else
      inputs.push_back(model_->engine().upload(arrays.at(input.name), true));
  }
  const std::vector<graph::BufferRef> outputs = entry.program->run(inputs, task);
  size_t next = 0;
  if (key.keys > 0) {
    state.give_back({outputs[0], outputs[1]});
    next = 2;
  }
  const auto numbers = [&] { return outputs[next++]->read(); };
  const Tensor draw = numbers(), draw_prob = numbers(), argmax = numbers(), max_prob = numbers(),
               entropy = numbers(), shaped_prob = numbers(), shaped_margin = numbers(),
               shaped_entropy = numbers(), top_ids = numbers(), top_probs = numbers();
  const bool defers = !settings_.deferred.empty();
  const Tensor rest = defers ? numbers() : Tensor(); // probability of all that are not deferred
  std::vector<std::vector<Prediction>> answers;
  size_t i = 0;
  for (const PassRow& row : rows) {
    std::vector<Prediction>& answer = answers.emplace_back();
    for (const int64_t position : row.ask->positions) {
      Prediction p{position,
                   draw.as<int32_t>()[i],
                   draw_prob.as<float>()[i],
                   argmax.as<int32_t>()[i],
                   max_prob.as<float>()[i],
                   entropy.as<float>()[i],
                   shaped_prob.as<float>()[i],
                   shaped_margin.as<float>()[i],
                   shaped_entropy.as<float>()[i],
                   {},
                   {}};
      const auto first = static_cast<std::ptrdiff_t>(i) * settings_.top;
      p.top_ids.assign(top_ids.as<int32_t>().begin() + first,
                       top_ids.as<int32_t>().begin() + first + settings_.top);
      p.top_probs.assign(top_probs.as<float>().begin() + first,
                         top_probs.as<float>().begin() + first + settings_.top);
      if (defers) {
        const bool deferred = settings_.deferred[static_cast<size_t>(p.token)] != 0;
        p.probability = deferred ? 0.0f : p.probability / rest.as<float>()[i];
      }
      answer.push_back(std::move(p));
      ++i;
    }
  }
  return answers;
}

} // namespace dllm::decode
