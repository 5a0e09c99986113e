#include "noise/evaluate.h"

#include "base/error.h"
#include "graph/ops.h"
#include "graph/passes.h"
#include "runtime/programs.h"

#include <fmt/format.h>

#include <algorithm>

namespace dllm::noise {

constexpr size_t kKeptLossPrograms = 4;

LossRunner::LossRunner(std::shared_ptr<model::Model> model, ObjectiveRef objective)
    : model_(std::move(model)), objective_(std::move(objective)), programs_(kKeptLossPrograms) {}

namespace {

// Inputs: parameters, then the feed; one output: sum and normalizer, f32(2).
std::shared_ptr<graph::Program> compile_loss(const model::Model& model, const Objective& objective,
                                             const Batch& feed) {
  auto graph = std::make_shared<graph::Graph>("loss");
  model::Builder builder(*graph, model);
  builder.parameters();
  const auto arrays = runtime::feed_inputs(*graph, feed);
  const Loss loss = objective.loss(builder, arrays);
  graph->output(
      "numbers",
      graph::concat({graph::reshape(loss.sum, {1}), graph::reshape(loss.normalizer, {1})}, 0));
  return model.engine().compile(graph::simplify(*graph));
}

std::vector<graph::BufferRef> run_on_feed(const std::shared_ptr<graph::Program>& program,
                                          const model::Model& model, const Batch& feed,
                                          const Task* task) {
  runtime::Arguments arguments(program);
  arguments.share_parameters(model.params().snapshot(nullptr, task));
  arguments.upload(model.engine(), feed);
  return arguments.run(task);
}

} // namespace

LossGradients loss_gradients(const model::Model& model, const Objective& objective,
                             const Batch& prepared, const Task* task) {
  const Batch feed = objective.feed(prepared, model.config());
  const auto graph = std::make_shared<graph::Graph>("loss_gradients");
  model::Builder builder(*graph, model);
  const std::vector<graph::Value> parameters = builder.parameters();
  const Loss loss = objective.loss(builder, runtime::feed_inputs(*graph, feed));
  std::vector<graph::Value> trained;
  std::vector<size_t> indices;
  const auto& physical = model.params().physical();
  for (size_t i = 0; i < physical.size(); ++i) {
    if (!physical[i].trainable || physical[i].dtype != DType::f32 || physical[i].scale_of >= 0)
      continue;
    trained.push_back(parameters[i]);
    indices.push_back(i);
  }
  graph->output("sum", loss.sum);
  graph->output("normalizer", loss.normalizer);
  const std::vector<graph::Value> gradients = graph::gradients(loss.sum, trained);
  for (size_t i = 0; i < gradients.size(); ++i)
    graph->output(fmt::format("gradient{}", i), gradients[i]);

  const auto program = model.engine().compile(graph::simplify(*graph));
  const auto outputs = run_on_feed(program, model, feed, task);
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

LossValue LossRunner::run(const Batch& batch, uint64_t seed, int64_t step, const Task* task) {
  const model::ModelConfig& config = model_->config();
  const Batch prepared =
      objective_->is_prepared(batch)
          ? batch
          : objective_->prepare(batch, seed, step, prepare_context(*objective_, config));
  const Batch feed = objective_->feed(prepared, config);
  const auto program = programs_.get(runtime::feed_signature(feed),
                                     [&] { return compile_loss(*model_, *objective_, feed); });
  const auto outputs = run_on_feed(program, *model_, feed, task);
  const Tensor numbers = outputs[0]->read();
  return {numbers.as<float>()[0], numbers.as<float>()[1]};
}

} // namespace dllm::noise
