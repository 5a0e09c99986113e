#include "train/programs.h"

#include "base/error.h"
#include "graph/ops.h"
#include "graph/passes.h"
#include "noise/evaluate.h"
#include "train/optimizer.h"

namespace dllm::train {
namespace {

using graph::Value;

bool references_mean_of_means(const std::string& compat) {
  return compat == "dllm-jax" || compat == "dllm" || compat == "nano";
}

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

// What goes into the output "numbers"; undefined: 0.
struct NumberValues {
  Value control;
  noise::Loss loss;
  Value grad_norm, finite;
};

// Scalars side by side. Wishes of all ranks are summed inside the program, so that every process
// acts on them after the same step; on one rank the set of axes is empty and the sum is the value
// itself.
StepGraph finish(const std::shared_ptr<graph::Graph>& graph, const NumberValues& numbers,
                 const graph::AxisSet& axes = {}) {
  StepGraph made;
  std::vector<Value> row;
  const auto put = [&](Value value) {
    if (!value.defined()) value = graph::scalar(*graph, 0.0f);
    row.push_back(graph::reshape(value, {1}));
  };
  put(numbers.loss.sum);
  put(numbers.loss.normalizer);
  put(numbers.grad_norm);
  put(numbers.finite);
  Value control = numbers.control;
  if (!axes.empty()) control = graph::all_reduce(graph::vary(control, axes), axes);
  row.push_back(graph::convert(control, DType::f32));
  for (const auto& part : numbers.loss.parts) {
    made.parts.push_back(part.name);
    put(part.sum);
    put(part.count);
  }
  graph->output("numbers", graph::concat(row, 0));
  made.graph = graph::simplify(*graph);
  return made;
}

Value control_input(graph::Graph& graph) {
  return graph.input("control", DType::i32, {kControlCount});
}

// What an update takes from the host, and from the update before it.
void update_inputs(graph::Graph& graph, const ProgramSpec& spec, UpdateValues& update) {
  update.scalars = graph.input("scalars", DType::f32, {kScalarCount});
  if (spec.halts) update.halted = graph.input("halted", DType::f32, Shape{});
}

// The outputs of an update and of the sums it used up.
void emit_update(graph::Graph& graph, const ProgramSpec& spec, const UpdateValues& update,
                 const std::vector<Value>& sums, NumberValues& numbers) {
  const Updated next = clipped_adamw(graph, update);
  state_outputs(graph, spec, "param", next.params);
  state_outputs(graph, spec, "first", next.first);
  state_outputs(graph, spec, "second", next.second);
  state_outputs(graph, spec, "ema", next.ema);
  std::vector<Value> cleared;
  for (const Value& sum : sums)
    cleared.push_back(graph::broadcast(graph::scalar(graph, 0.0f), sum.shape()));
  state_outputs(graph, spec, "sums", cleared);
  numbers.grad_norm = next.norm;
  numbers.finite = graph::convert(next.finite, DType::f32);
  if (spec.halts)
    graph.output("halted", graph::subtract(graph::scalar(graph, 1.0f), numbers.finite));
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

ProgramSpec program_spec(const model::Model& model, const noise::Objective& objective,
                         const Options& options) {
  ProgramSpec spec;
  spec.model = &model;
  spec.objective = &objective;
  const bool decay_all = options.str("decay") == "all";
  const auto& physical = model.params().physical();
  for (size_t i = 0; i < physical.size(); ++i) {
    if (!physical[i].trainable || physical[i].scale_of >= 0) continue;
    spec.trained.push_back(i);
    spec.decay.push_back(decay_all || physical[i].decay);
  }
  if (spec.trained.empty()) {
    fail_with_hint("let freeze name fewer tensors", Code::invalid_argument,
                   "every parameter is frozen");
  }
  spec.ema = options.f64("ema") > 0;
  spec.remat = options.boolean("remat");
  spec.halts = options.str("nonfinite") == "stop";
  spec.mean_of_means = references_mean_of_means(options.str("compat"));
  return spec;
}

StepGraph build_fused(const ProgramSpec& spec, const Batch& feed) {
  const auto graph = std::make_shared<graph::Graph>("train_step");
  Parameters parameters = parameter_inputs(*graph, spec);
  UpdateValues update;
  update.decay = spec.decay;
  update.params = parameters.trained;
  update.first = state_inputs(*graph, spec, "first");
  update.second = state_inputs(*graph, spec, "second");
  if (spec.ema) update.ema = state_inputs(*graph, spec, "ema");
  update_inputs(*graph, spec, update);
  NumberValues numbers;
  numbers.control = control_input(*graph);
  const auto arrays = noise::feed_inputs(*graph, feed);

  numbers.loss = spec.objective->loss(*parameters.builder, arrays);
  update.gradients = graph::gradients(numbers.loss.sum, update.params);
  update.loss_sum = numbers.loss.sum;
  update.normalizer = numbers.loss.normalizer;
  emit_update(*graph, spec, update, {}, numbers);
  return finish(graph, numbers);
}

StepGraph build_accumulate(const ProgramSpec& spec, const Batch& feed) {
  const auto graph = std::make_shared<graph::Graph>("train_accumulate");
  Parameters parameters = parameter_inputs(*graph, spec);
  const std::vector<Value> sums = state_inputs(*graph, spec, "sums");
  NumberValues numbers;
  numbers.control = control_input(*graph);
  const auto arrays = noise::feed_inputs(*graph, feed);

  numbers.loss = spec.objective->loss(*parameters.builder, arrays);
  const Value objective =
      spec.mean_of_means ? graph::divide(numbers.loss.sum, at_least_one(numbers.loss.normalizer))
                         : numbers.loss.sum;
  const std::vector<Value> gradients = graph::gradients(objective, parameters.trained);
  std::vector<Value> next;
  for (size_t i = 0; i < sums.size(); ++i) next.push_back(graph::add(sums[i], gradients[i]));
  state_outputs(*graph, spec, "sums", next);
  return finish(graph, numbers);
}

StepGraph build_apply(const ProgramSpec& spec) {
  const auto graph = std::make_shared<graph::Graph>("train_apply");
  UpdateValues update;
  update.decay = spec.decay;
  update.params = state_inputs(*graph, spec, "param", true);
  update.first = state_inputs(*graph, spec, "first");
  update.second = state_inputs(*graph, spec, "second");
  if (spec.ema) update.ema = state_inputs(*graph, spec, "ema");
  update.gradients = state_inputs(*graph, spec, "sums");
  update_inputs(*graph, spec, update);
  NumberValues numbers;
  numbers.control = control_input(*graph);

  update.normalizer = scalar_at(update.scalars, kNormalizer);
  update.loss_sum = scalar_at(update.scalars, kLossSum);
  emit_update(*graph, spec, update, update.gradients, numbers);
  return finish(graph, numbers);
}

} // namespace dllm::train
