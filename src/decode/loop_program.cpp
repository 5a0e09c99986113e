#include "decode/loop_program.h"

#include "decode/loop_feed.h"

#include <algorithm>
#include <bit>

namespace dllm::decode {
namespace {

// Predictions in a record: some 40 MB.
constexpr int64_t kMostLines = int64_t{1} << 20;

} // namespace

LoopRecord::LoopRecord(const StepSettings& settings, const LoopShape& shape, Tensor answer)
    : settings_(settings), shape_(shape), answer_(std::move(answer)) {}

std::span<const int32_t> LoopRecord::line(int64_t step, int64_t row, int64_t place) const {
  const int64_t columns = RecordColumns(settings_).count;
  const int64_t at = (step * shape_.places() + row * shape_.block + place) * columns;
  return answer_.as<int32_t>().subspan(static_cast<size_t>(at), static_cast<size_t>(columns));
}

int64_t LoopRecord::steps(int64_t row) const {
  const int64_t at = shape_.steps * shape_.places() * RecordColumns(settings_).count + row;
  return answer_.as<int32_t>()[static_cast<size_t>(at)];
}

bool LoopRecord::goes_on(int64_t row) const {
  return steps(shape_.pass.rows + row) != 0; // behind the steps
}

int64_t LoopRecord::most_steps() const {
  int64_t most = 0;
  for (int64_t row = 0; row < shape_.pass.rows; ++row) most = std::max(most, steps(row));
  return most;
}

Prediction LoopRecord::prediction(int64_t step, int64_t row, int64_t place,
                                  int64_t position) const {
  using Columns = RecordColumns;
  const Columns columns(settings_);
  const std::span<const int32_t> said = line(step, row, place);
  const auto number = [&](int64_t column) {
    return std::bit_cast<float>(said[static_cast<size_t>(column)]);
  };
  Prediction p;
  p.position = position;
  p.token = said[Columns::draw];
  p.probability = number(Columns::draw_prob);
  p.argmax = said[Columns::argmax];
  p.max_probability = number(Columns::max_prob);
  p.entropy = number(Columns::entropy);
  if (settings_.shaped) {
    p.shaped_probability = number(Columns::shaped);
    p.shaped_margin = number(Columns::shaped + 1);
    p.shaped_entropy = number(Columns::shaped + 2);
  }
  for (int64_t k = 0; k < settings_.top; ++k) {
    p.top_ids.push_back(said[static_cast<size_t>(columns.top_ids + k)]);
    p.top_probs.push_back(number(columns.top_probs + k));
  }
  return p;
}

int32_t LoopRecord::after(int64_t step, int64_t row, int64_t place) const {
  return line(step, row, place)[RecordColumns::after];
}

LoopProgram::LoopProgram(std::shared_ptr<model::Model> model, StepSettings settings,
                         std::unique_ptr<LoopRule> rule)
    : model_(std::move(model)), settings_(std::move(settings)), rule_(std::move(rule)) {}

LoopShape LoopProgram::shape_of(std::span<const LoopRow> rows, std::span<const PassRow> passes,
                                const DecodeState& state, int64_t least_rows) const {
  LoopShape shape{pass_shape(model_->config(), passes, {state.rows(), state.capacity()}, least_rows), 1, 1};
  shape.pass.soft = settings_.soft_width > 0;
  for (const LoopRow& row : rows) {
    const int64_t block = std::min(row.slot->block_length, row.slot->length());
    shape.block = std::max(shape.block, block);
    shape.steps = std::max(shape.steps, std::min(row.plan->most_steps, kMostLines));
  }
  shape.block = round_up(shape.block, 1);
  shape.pass.capacity = shape.places();
  const int64_t most = std::max<int64_t>(1, kMostLines / shape.places());
  shape.steps = std::min(round_up(shape.steps, 1), most);
  return shape;
}

LoopRecord LoopProgram::run(std::span<const LoopRow> rows, DecodeState& state, int64_t limit,
                            int64_t least_rows, const Task* task) {
  std::vector<PassRow> passes;
  for (const LoopRow& row : rows) passes.push_back({row.slot, &row.plan->ask, row.cache_row});
  const LoopShape shape = shape_of(rows, passes, state, least_rows);
  const std::shared_ptr<graph::Program> program = programs_.get(shape, [&] {
    auto graph = std::make_shared<graph::Graph>("denoise_loop");
    build_loop(*graph, *model_, settings_, *rule_, shape);
    return model_->engine().compile(std::move(graph));
  });
  Batch arrays;
  add_window_feed(arrays, model_->config(), settings_, shape.pass, passes, state);
  add_loop_feed(arrays, model_->config(), settings_, *rule_, shape, rows,
                std::min(limit, shape.steps));
  KvBuffers kept;
  const bool cached = shape.pass.keys > 0;
  if (cached) kept = state.lend();
  const std::vector<graph::BufferRef> inputs =
      program_inputs(*program, *model_, arrays, std::move(kept));
  const std::vector<graph::BufferRef> outputs = program->run(inputs, task);
  if (cached) state.give_back({outputs[0], outputs[1]});
  return {settings_, shape, outputs[cached ? 2 : 0]->read()};
}

} // namespace dllm::decode
