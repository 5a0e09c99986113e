#include "train/programs.h"

#include "graph/ops.h"
#include "graph/passes.h"
#include "noise/evaluate.h"
#include "train/optimizer.h"

namespace dllm::train {
namespace {

using graph::Value;

const std::vector<model::ParamStore::Physical>& physical(const ProgramSpec& spec) {
  return spec.model->params().physical();
}

// One input per trained parameter, of the parameter's shape.
std::vector<Value> state_inputs(graph::Graph& graph, const ProgramSpec& spec,
                                const std::string& kind, bool is_parameter = false) {
  std::vector<Value> made;
  for (const size_t index : spec.trained) {
    const auto& entry = physical(spec)[index];
    made.push_back(
        graph.input(kind + ":" + entry.name, {entry.shape, DType::f32, {}}, is_parameter));
  }
  return made;
}

// One output per trained parameter, written over the input of the same name.
void state_outputs(graph::Graph& graph, const ProgramSpec& spec, const std::string& kind,
                   const std::vector<Value>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string name = kind + ":" + physical(spec)[spec.trained[i]].name;
    graph.output(name, values[i], name);
  }
}

// The outputs of an update and of the sums it used up.
void emit_update(graph::Graph& graph, const ProgramSpec& spec, const UpdateValues& update,
                 const std::vector<Value>& sums) {
  const Updated next = clipped_adamw(graph, update);
  state_outputs(graph, spec, "param", next.params);
  state_outputs(graph, spec, "first", next.first);
  state_outputs(graph, spec, "second", next.second);
  state_outputs(graph, spec, "ema", next.ema);
  std::vector<Value> cleared;
  for (const Value& sum : sums)
    cleared.push_back(graph::broadcast(graph::scalar(graph, 0.0f), sum.shape()));
  state_outputs(graph, spec, "sums", cleared);
  graph.output("grad_norm", next.norm);
  graph.output("finite", graph::convert(next.finite, DType::f32));
}

// Wishes of all ranks, summed inside the program, so that every process acts on them after the same
// step. On one rank the set of axes is empty and the sum is the value itself.
void emit_control(graph::Graph& graph, const graph::AxisSet& axes) {
  const Value control = graph.input("control", DType::i32, {kControlCount});
  graph.output("control", axes.empty() ? graph::barrier(control)
                                       : graph::all_reduce(graph::vary(control, axes), axes));
}

void emit_loss(graph::Graph& graph, const noise::Loss& loss) {
  graph.output("sum", loss.sum);
  graph.output("normalizer", loss.normalizer);
  for (const auto& part : loss.parts) {
    graph.output("part:" + part.name, part.sum);
    graph.output("part_count:" + part.name, part.count);
  }
}

// Parameters as inputs, all of them, and those that are trained.
struct Parameters {
  std::unique_ptr<model::Builder> builder;
  std::vector<Value> trained;
};

Parameters parameter_inputs(graph::Graph& graph, const ProgramSpec& spec) {
  Parameters made{std::make_unique<model::Builder>(graph, *spec.model), {}};
  made.builder->set_remat(spec.remat);
  const std::vector<Value> all = made.builder->parameters();
  for (const size_t index : spec.trained) made.trained.push_back(all[index]);
  return made;
}

} // namespace

std::shared_ptr<graph::Graph> build_fused(const ProgramSpec& spec, const Batch& feed) {
  auto graph = std::make_shared<graph::Graph>("train_step");
  Parameters parameters = parameter_inputs(*graph, spec);
  UpdateValues update;
  update.decay = spec.decay;
  update.params = parameters.trained;
  update.first = state_inputs(*graph, spec, "first");
  update.second = state_inputs(*graph, spec, "second");
  if (spec.ema) update.ema = state_inputs(*graph, spec, "ema");
  update.scalars = graph->input("scalars", DType::f32, {kScalarCount});
  emit_control(*graph, {});
  const auto arrays = noise::feed_inputs(*graph, feed);

  const noise::Loss loss = spec.objective->loss(*parameters.builder, arrays);
  update.gradients = graph::gradients(loss.sum, update.params);
  update.loss_sum = loss.sum;
  update.normalizer = loss.normalizer;
  emit_update(*graph, spec, update, {});
  emit_loss(*graph, loss);
  return graph::simplify(*graph);
}

std::shared_ptr<graph::Graph> build_accumulate(const ProgramSpec& spec, const Batch& feed) {
  auto graph = std::make_shared<graph::Graph>("train_accumulate");
  Parameters parameters = parameter_inputs(*graph, spec);
  const std::vector<Value> sums = state_inputs(*graph, spec, "sums");
  emit_control(*graph, {});
  const auto arrays = noise::feed_inputs(*graph, feed);

  const noise::Loss loss = spec.objective->loss(*parameters.builder, arrays);
  const Value objective =
      spec.mean_of_means ? graph::divide(loss.sum, at_least_one(loss.normalizer)) : loss.sum;
  const std::vector<Value> gradients = graph::gradients(objective, parameters.trained);
  std::vector<Value> next;
  for (size_t i = 0; i < sums.size(); ++i) next.push_back(graph::add(sums[i], gradients[i]));
  state_outputs(*graph, spec, "sums", next);
  emit_loss(*graph, loss);
  return graph::simplify(*graph);
}

std::shared_ptr<graph::Graph> build_apply(const ProgramSpec& spec) {
  auto graph = std::make_shared<graph::Graph>("train_apply");
  UpdateValues update;
  update.decay = spec.decay;
  update.params = state_inputs(*graph, spec, "param", true);
  update.first = state_inputs(*graph, spec, "first");
  update.second = state_inputs(*graph, spec, "second");
  if (spec.ema) update.ema = state_inputs(*graph, spec, "ema");
  update.gradients = state_inputs(*graph, spec, "sums");
  update.scalars = graph->input("scalars", DType::f32, {kScalarCount});
  emit_control(*graph, {});

  update.normalizer = scalar_at(update.scalars, kNormalizer);
  update.loss_sum = scalar_at(update.scalars, kLossSum);
  emit_update(*graph, spec, update, update.gradients);
  return graph::simplify(*graph);
}

} // namespace dllm::train
