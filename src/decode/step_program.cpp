#include "decode/step_program.h"

#include "base/error.h"
#include "graph/ops.h"

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

constexpr size_t kPrograms = 4;
constexpr int64_t kLeastCapacity = 16;

// Row of hidden states that predicts a position: the one before it under shift 1 (the first predicts itself, as Dream).
int64_t predicting(int64_t position, int shift) { return shift == 1 && position > 0 ? position - 1 : position; }

graph::Mask attention_mask(Graph& graph, const StepSettings& settings, int64_t rows) {
  Value block;
  if (settings.attention == model::AttentionKind::block_causal) block = graph.input("block", DType::i32, Shape{});
  graph::Mask mask = model::make_mask(settings.attention, block);
  // Canvases of unequal length: what lies behind a canvas is seen by nobody.
  mask.and_key_range(graph.input("begin", DType::i32, Shape{rows}), graph.input("end", DType::i32, Shape{rows}));
  return mask;
}

}  // namespace

StepProgram::StepProgram(std::shared_ptr<model::Model> model, StepSettings settings)
    : model_(std::move(model)), settings_(std::move(settings)) {}

StepProgram::~StepProgram() = default;

void StepProgram::build(Graph& graph, const Key& key) const {
  const model::ModelConfig& config = model_->config();
  model::ForwardInputs inputs;
  inputs.ids = graph.input("ids", DType::i32, Shape{key.rows, key.length});
  if (config.time_conditioning) inputs.timesteps = graph.input("timesteps", DType::f32, Shape{key.rows});
  inputs.mask = attention_mask(graph, settings_, key.rows);
  model::Builder builder(graph, *model_);
  const Value hidden = builder.forward(inputs).hidden;  // (rows, length, hidden)

  graph::TokenStatisticsInputs head;
  const Value flat = graph::reshape(hidden, Shape{key.rows * key.length, config.hidden_size});
  head.x = graph::take(flat, graph.input("query", DType::i32, Shape{key.capacity}));
  head.weight = builder.head().weight;
  head.bias = builder.head().bias;
  head.scale = builder.head().scale;
  head.count = graph.input("count", DType::i32, Shape{});
  head.temperature = graph.input("temperature", DType::f32, Shape{key.capacity});
  head.top_k = graph.input("top_k", DType::i32, Shape{key.capacity});
  head.top_p = graph.input("top_p", DType::f32, Shape{key.capacity});
  head.uniform = graph.input("uniform", DType::f32, Shape{key.capacity});
  if (!settings_.banned.empty()) head.banned = graph.input("banned", DType::u8, Shape{config.vocab_size});
  const graph::TokenStatistics statistics = graph::token_statistics(head, 1);
  graph.output("token", statistics.draw);
  graph.output("probability", statistics.draw_prob);
  graph.output("entropy", statistics.entropy);
}

StepProgram::Entry& StepProgram::compiled(const Key& key) {
  const auto found = std::find_if(programs_.begin(), programs_.end(), [&](const auto& e) { return e->key == key; });
  if (found != programs_.end()) {
    programs_.splice(programs_.begin(), programs_, found);
    return *programs_.front();
  }
  auto graph = std::make_shared<Graph>("denoise");
  build(*graph, key);
  programs_.push_front(std::make_unique<Entry>(Entry{key, model_->engine().compile(std::move(graph))}));
  if (programs_.size() > kPrograms) programs_.pop_back();
  return *programs_.front();
}

Batch StepProgram::feed(const Key& key, std::span<const Slot* const> rows, std::span<const Query> queries) const {
  std::vector<int32_t> ids(static_cast<size_t>(key.rows * key.length), 0);
  std::vector<int32_t> begin(rows.size(), 0), end;
  std::vector<float> timesteps;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::copy(rows[r]->ids.begin(), rows[r]->ids.end(), ids.begin() + static_cast<int64_t>(r) * key.length);
    end.push_back(static_cast<int32_t>(rows[r]->length()));
    const auto per_block = static_cast<double>(rows[r]->steps_per_block);
    const double t = std::max(0.0, 1.0 - static_cast<double>(rows[r]->step_in_block) / per_block);
    timesteps.push_back(static_cast<float>(t * static_cast<double>(model_->config().time_steps)));
  }
  const auto capacity = static_cast<size_t>(key.capacity);
  std::vector<int32_t> query(capacity, 0), top_k(capacity, 0);
  std::vector<float> temperature(capacity, 0), top_p(capacity, 1), uniform(capacity, 0);
  for (size_t i = 0; i < queries.size(); ++i) {
    const Query& q = queries[i];
    query[i] = static_cast<int32_t>(q.row * key.length + predicting(q.position, settings_.shift));
    temperature[i] = q.slot->settings.temperature;
    top_k[i] = q.slot->settings.top_k;
    top_p[i] = q.slot->settings.top_p;
    uniform[i] = uniform_from_bits(random_bits_at(position_key(*q.slot, q.position), 0));
  }
  Batch feed;
  feed.set("ids", Tensor::from(Shape{key.rows, key.length}, ids));
  feed.set("timesteps", Tensor::from(Shape{key.rows}, timesteps));
  feed.set("block", Tensor::scalar(static_cast<int32_t>(settings_.attention_block)));
  feed.set("begin", Tensor::from(Shape{key.rows}, begin));
  feed.set("end", Tensor::from(Shape{key.rows}, end));
  feed.set("query", Tensor::from(Shape{key.capacity}, query));
  feed.set("count", Tensor::scalar(static_cast<int32_t>(queries.size())));
  feed.set("temperature", Tensor::from(Shape{key.capacity}, temperature));
  feed.set("top_k", Tensor::from(Shape{key.capacity}, top_k));
  feed.set("top_p", Tensor::from(Shape{key.capacity}, top_p));
  feed.set("uniform", Tensor::from(Shape{key.capacity}, uniform));
  if (!settings_.banned.empty()) feed.set("banned", Tensor::from(Shape{model_->config().vocab_size}, settings_.banned));
  return feed;
}

std::vector<Prediction> StepProgram::run(std::span<const Slot* const> rows, std::span<const Query> queries,
                                         int64_t capacity, const Task* task) {
  Key key{static_cast<int64_t>(rows.size()), 0, 0};
  for (const Slot* row : rows) key.length = std::max(key.length, row->length());
  const int64_t most = std::max({capacity, static_cast<int64_t>(queries.size()), kLeastCapacity});
  key.capacity = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(most)));
  Entry& entry = compiled(key);

  const Batch arrays = feed(key, rows, queries);
  const std::vector<graph::BufferRef> parameters = model_->params().snapshot();
  std::vector<graph::BufferRef> inputs;
  size_t next_parameter = 0;
  for (const graph::GraphInput& input : entry.program->graph().inputs()) {
    inputs.push_back(input.is_parameter ? parameters[next_parameter++]
                                        : model_->engine().upload(arrays.at(input.name), true));
  }
  const std::vector<graph::BufferRef> outputs = entry.program->run(inputs, task);
  const Tensor token = outputs[0]->read(), probability = outputs[1]->read(), entropy = outputs[2]->read();
  std::vector<Prediction> predictions;
  for (size_t i = 0; i < queries.size(); ++i) {
    predictions.push_back({queries[i].position, token.as<int32_t>()[i], probability.as<float>()[i],
                           entropy.as<float>()[i]});
  }
  return predictions;
}

}  // namespace dllm::decode
