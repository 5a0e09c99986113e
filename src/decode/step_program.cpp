#include "decode/step_program.h"

#include "base/error.h"
#include "decode/step_feed.h"
#include "decode/step_graph.h"

#include <algorithm>
#include <bit>

namespace dllm::decode {

using graph::Graph;

struct StepProgram::Entry {
  StepShape key;
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

StepShape step_shape(const model::ModelConfig& config, std::span<const PassRow> rows,
                     const CacheShape& cache, int64_t capacity) {
  const Ask& first = *rows[0].ask;
  StepShape key{round_up(static_cast<int64_t>(rows.size()), 1),
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
  key.window = std::min(round_up(key.window, 8), std::max(config.max_positions, key.window));
  key.capacity = static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max({capacity, queries, kLeastCapacity}))));
  if (first.cached) {
    key.keys = std::min(round_up(keys, kKeyStep), cache.capacity);
    key.cache_rows = cache.rows * cache.capacity;
  }
  return key;
}

StepProgram::Entry& StepProgram::compiled(const StepShape& key) {
  const auto found = std::find_if(programs_.begin(), programs_.end(),
                                  [&](const auto& entry) { return entry->key == key; });
  if (found != programs_.end()) {
    programs_.splice(programs_.begin(), programs_, found);
    return *programs_.front();
  }
  auto graph = std::make_shared<Graph>("denoise");
  build_step(*graph, *model_, settings_, key);
  programs_.push_front(
      std::make_unique<Entry>(Entry{key, model_->engine().compile(std::move(graph))}));
  if (programs_.size() > kPrograms) programs_.pop_back();
  return *programs_.front();
}

std::vector<std::vector<Prediction>> StepProgram::run(std::span<const PassRow> rows,
                                                      DecodeState& state, int64_t capacity,
                                                      const Task* task) {
  const StepShape key =
      step_shape(model_->config(), rows, {state.rows(), state.capacity()}, capacity);
  Entry& entry = compiled(key);
  const Batch arrays = step_feed(model_->config(), settings_, key, rows, state);
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
