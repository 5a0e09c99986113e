#include "decode/loop_program.h"

#include "decode/loop_feed.h"

#include <algorithm>

namespace dllm::decode {
namespace {

// Predictions in a record: some 40 MB.
constexpr int64_t kMostLines = int64_t{1} << 20;

} // namespace

LoopRecord::LoopRecord(const StepSettings& settings, const LoopShape& shape, Tensor answer)
    : settings_(settings), shape_(shape), answer_(std::move(answer)) {}

std::span<const int32_t> LoopRecord::line(int64_t step, int64_t row, int64_t place) const {
  const int64_t columns = record_columns(settings_);
  const int64_t at = (step * shape_.places() + row * shape_.block + place) * columns;
  return answer_.as<int32_t>().subspan(static_cast<size_t>(at), static_cast<size_t>(columns));
}

int64_t LoopRecord::steps(int64_t row) const {
  const int64_t at = shape_.steps * shape_.places() * record_columns(settings_) + row;
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
  return prediction_of(line(step, row, place), settings_.columns(), position);
}

int32_t LoopRecord::after(int64_t step, int64_t row, int64_t place) const {
  return line(step, row, place).back();
}

LoopShape loop_shape(const StepShape& pass, const StepSettings& settings, int64_t block,
                     int64_t steps) {
  LoopShape shape{pass, round_up(block, 1), 1};
  shape.pass.soft = settings.soft_width > 0;
  shape.pass.capacity = shape.places();
  const int64_t most = std::max<int64_t>(1, kMostLines / shape.places());
  shape.steps = std::min(round_up(std::min(steps, kMostLines), 1), most);
  return shape;
}

LoopProgram::LoopProgram(std::shared_ptr<model::Model> model, StepSettings settings,
                         std::unique_ptr<LoopRule> rule)
    : model_(std::move(model)), settings_(std::move(settings)), rule_(std::move(rule)) {}

LoopShape LoopProgram::shape_of(std::span<const LoopRow> rows, std::span<const PassRow> passes,
                                const DecodeState& state, int64_t least_rows) const {
  int64_t block = 1, steps = 1;
  for (const LoopRow& row : rows) {
    block = std::max(block, std::min(row.slot->block_length, row.slot->length()));
    steps = std::max(steps, row.plan->most_steps);
  }
  return loop_shape(pass_shape(model_->config(), passes, state.shape(), least_rows), settings_, block,
                    steps);
}

LoopRecord LoopProgram::run(std::span<const LoopRow> rows, DecodeState& state,
                            const Weights& weights, int64_t limit, int64_t least_rows,
                            const Task* task) {
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
  const bool cached = shape.pass.keys > 0;
  const std::vector<graph::BufferRef> outputs =
      run_pass(program, model_->engine(), weights, arrays, cached ? &state : nullptr, task);
  return {settings_, shape, outputs[cached ? state.stacks().size() : 0]->read()};
}

} // namespace dllm::decode
