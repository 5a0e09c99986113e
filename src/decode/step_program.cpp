#include "decode/step_program.h"

#include "decode/no_numbers.h"
#include "decode/step_feed.h"
#include "decode/step_graph.h"

#include <algorithm>

namespace dllm::decode {

StepProgram::StepProgram(std::shared_ptr<model::Model> model, StepSettings settings)
    : model_(std::move(model)), settings_(std::move(settings)) {}

void StepProgram::set_noise(bool noise) {
  settings_.noise = noise;
  programs_.clear();
}

int StepProgram::kind_of(const Ask& ask) {
  return (ask.cached ? 1 : 0) | (ask.unconditional.empty() ? 0 : 2) | (ask.soft.empty() ? 0 : 4);
}

// Of every row, from the outputs of build_step in their order.
std::vector<std::vector<Prediction>>
StepProgram::predictions(std::span<const PassRow> rows,
                         std::span<const graph::BufferRef> outputs) const {
  const Tensor lines = outputs[0]->read();
  const bool defers = !settings_.deferred.empty();
  const Tensor rest = defers ? outputs[1]->read() : Tensor(); // probability of the not deferred
  const PredictionColumns columns = settings_.columns();
  std::vector<std::vector<Prediction>> answers;
  size_t i = 0;
  for (const PassRow& row : rows) {
    std::vector<Prediction>& answer = answers.emplace_back();
    for (const int64_t position : row.ask->positions) {
      const auto width = static_cast<size_t>(columns.count);
      Prediction p =
          prediction_of(lines.as<int32_t>().subspan(i * width, width), columns, position);
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

std::vector<std::vector<Prediction>> StepProgram::run(std::span<const PassRow> rows,
                                                      DecodeState& state, const Weights& weights,
                                                      int64_t capacity, const Task* task,
                                                      int64_t least_rows) {
  StepShape shape = pass_shape(model_->config(), rows, state.shape(), least_rows);
  int64_t queries = 0;
  for (const PassRow& row : rows) queries += static_cast<int64_t>(row.ask->positions.size());
  const bool reads = queries > 0 || shape.keys == 0;
  if (reads) shape.capacity = head_capacity(std::max(capacity, queries));
  const std::shared_ptr<graph::Program> program = programs_.get(shape, [&] {
    auto graph = std::make_shared<graph::Graph>(reads ? "denoise" : "fill");
    build_step(*graph, *model_, settings_, shape);
    return model_->engine().compile(std::move(graph));
  });
  const Batch arrays = step_feed(model_->config(), settings_, shape, rows, state);
  StateBuffers kept;
  if (shape.keys > 0) kept = state.lend();
  const std::vector<graph::BufferRef> inputs =
      program_inputs(*program, *model_, weights, arrays, std::move(kept));
  const std::vector<graph::BufferRef> outputs = program->run(inputs, task);
  size_t next = 0;
  if (shape.keys > 0) {
    next = state.stacks().size();
    state.give_back({outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(next)});
  }
  if (!reads) return std::vector<std::vector<Prediction>>(rows.size());
  auto answers = predictions(rows, std::span(outputs).subspan(next));
  for (const std::vector<Prediction>& answer : answers) {
    const auto bad = std::ranges::find_if_not(answer, is_number);
    if (bad == answer.end()) continue;
    // A state that is not finite must not stay.
    const PassRun pass{*program, *model_, weights, arrays, shape.keys > 0 ? state.lend() : StateBuffers{}, task};
    fail_without_numbers(bad->position, settings_.banned, &pass);
  }
  return answers;
}

} // namespace dllm::decode
