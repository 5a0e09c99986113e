#include "noise/loss/evaluate.h"

#include "base/error.h"
#include "graph/ops.h"
#include "graph/passes.h"
#include "runtime/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace dllm::noise {

constexpr size_t kKeptLossPrograms = 4;

LossRunner::LossRunner(std::shared_ptr<model::Model> model, ObjectiveRef objective)
    : model_(std::move(model)), objective_(std::move(objective)), state_(objective_->first_state()),
      programs_(kKeptLossPrograms) {}

namespace {

// Builds the graph. Its inputs are parameters, then the feed. Its one output is sum and normalizer,
// f32(2).
std::shared_ptr<graph::Program> compile_loss(const model::Model& model, const Objective& objective,
                                             const Batch& feed) {
  auto graph = std::make_shared<graph::Graph>("loss");
  model::Builder builder(*graph, model, model.reading(objective.other_parts()));
  const auto arrays = runtime::feed_inputs(*graph, feed);
  const Loss loss = objective.loss(builder, arrays);
  graph->output(
      "numbers",
      graph::concat({graph::reshape(loss.sum, {1}), graph::reshape(loss.normalizer, {1})}, 0));
  return model.engine().compile(graph::simplify(*graph));
}

std::vector<graph::BufferRef> run_on_feed(const std::shared_ptr<graph::Program>& program,
                                          const model::Model& model, const Objective& objective,
                                          const Batch& feed, const Task* task) {
  runtime::Arguments arguments(program);
  const model::PartList parts = model.reading(objective.other_parts());
  arguments.share_parameters(model.params().snapshot(parts, nullptr, task));
  arguments.upload(model.engine(), feed);
  return arguments.run(task);
}

} // namespace

LossGradients loss_gradients(const model::Model& model, const Objective& objective,
                             const Batch& prepared, const Task* task) {
  const Batch feed =
      objective.with_state(objective.feed(prepared, model.config()), objective.first_state());
  const auto graph = std::make_shared<graph::Graph>("loss_gradients");
  model::Builder builder(*graph, model, model.reading(objective.other_parts()));
  const std::vector<graph::Value> parameters = builder.parameters();
  const std::vector<size_t> read = builder.indices();
  const Loss loss = objective.loss(builder, runtime::feed_inputs(*graph, feed));
  std::vector<graph::Value> trained;
  std::vector<size_t> indices;
  const auto& physical = model.params().physical();
  const model::ParamStore::Test is_trained = model.trained(objective.trained_parts());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const model::ParamStore::Physical& entry = physical[read[i]];
    if (!is_trained(entry) || entry.dtype != DType::f32) continue;
    trained.push_back(parameters[i]);
    indices.push_back(read[i]);
  }
  graph->output("sum", loss.sum);
  graph->output("normalizer", loss.normalizer);
  const std::vector<graph::Value> gradients = graph::gradients(loss.sum, trained);
  for (size_t i = 0; i < gradients.size(); ++i)
    graph->output(fmt::format("gradient{}", i), gradients[i]);

  const auto program = model.engine().compile(graph::simplify(*graph));
  const auto outputs = run_on_feed(program, model, objective, feed, task);
  LossGradients made;
  made.loss = {outputs[0]->read().as<float>()[0], outputs[1]->read().as<float>()[0]};
  const auto scale = static_cast<float>(1.0 / std::max(made.loss.normalizer, 1.0));
  for (size_t i = 0; i < indices.size(); ++i) {
    Tensor gradient = outputs[i + 2]->read().clone();
    for (float& value : gradient.mutable_as<float>()) value *= scale;
    for (auto& entry : model.params().to_logical(indices[i], gradient))
      made.gradients.push_back(std::move(entry));
  }
  return made;
}

double RowLosses::mean() const {
  const double count = std::accumulate(counts.begin(), counts.end(), 0.0);
  return count > 0 ? std::accumulate(sums.begin(), sums.end(), 0.0) / count : 0.0;
}

// The standard error of a ratio of two sums over independent rows.
double RowLosses::standard_error() const {
  const auto rows = static_cast<double>(sums.size());
  const double count = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (sums.size() < 2 || count <= 0) return 0;
  double squares = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const double apart = sums[i] - mean() * counts[i];
    squares += apart * apart;
  }
  return std::sqrt(squares * rows / (rows - 1)) / count;
}

double RowLosses::perplexity() const {
  return std::exp(mean());
}

double RowLosses::bits_per_byte(int64_t bytes) const {
  if (bytes <= 0) return 0;
  return std::accumulate(sums.begin(), sums.end(), 0.0) /
         (std::numbers::ln2 * static_cast<double>(bytes));
}

Batch LossRunner::prepared(const Batch& batch, uint64_t seed, int64_t step) const {
  if (objective_->is_prepared(batch)) return batch;
  PrepareContext context = prepare_context(*objective_, model_->config());
  context.held_out = true;
  return objective_->prepare(batch, seed, step, context);
}

namespace {

// Returns rows [begin, end) of a batch.
Batch part_of(const Batch& all, int64_t begin, int64_t end) {
  const int64_t rows = all.at("ids").shape()[0];
  Batch part;
  for (const auto& [name, array] : all) {
    const bool of_rows = array.shape().rank() > 0 && array.shape()[0] == rows && name != "rows";
    part.set(name, of_rows ? array.rows(begin, end) : array);
  }
  return part;
}

} // namespace

LossValue LossRunner::run_parts(const Batch& batch, uint64_t seed, int64_t step, int64_t rows,
                                const Task* task) {
  const Batch all = prepared(batch, seed, step);
  const int64_t count = all.at("ids").shape()[0];
  if (count <= rows) return run(all, seed, step, task);
  LossValue total;
  for (int64_t begin = 0; begin < count; begin += rows) {
    const LossValue one = run(part_of(all, begin, std::min(begin + rows, count)), seed, step, task);
    total.sum += one.sum;
    total.normalizer += one.normalizer;
  }
  return total;
}

RowLosses LossRunner::run_rows(const Batch& batch, uint64_t seed, int64_t step, Task* task) {
  const Batch all = prepared(batch, seed, step);
  const int64_t rows = all.at("ids").shape()[0];
  RowLosses made;
  for (int64_t b = 0; b < rows; ++b) {
    const LossValue value = run(part_of(all, b, b + 1), seed, step, task);
    made.sums.push_back(value.sum);
    made.counts.push_back(value.normalizer);
    if (task != nullptr) task->set_progress(b + 1, rows);
  }
  return made;
}

LossValue LossRunner::run(const Batch& batch, uint64_t seed, int64_t step, const Task* task) {
  const Batch feed = objective_->with_state(
      objective_->feed(prepared(batch, seed, step), model_->config()), state_);
  const std::string key =
      model_->reading(objective_->other_parts()).text() + " " + runtime::feed_signature(feed);
  programs_.set_version(model_->params().list_version());
  const auto program = programs_.get(key, [&] { return compile_loss(*model_, *objective_, feed); });
  const auto outputs = run_on_feed(program, *model_, *objective_, feed, task);
  const Tensor numbers = outputs[0]->read();
  return {numbers.as<float>()[0], numbers.as<float>()[1]};
}

} // namespace dllm::noise
