#include "train/step/programs.h"

#include "base/error.h"
#include "base/named_table.h"
#include "graph/ops.h"
#include "graph/passes.h"
#include "runtime/programs.h"
#include "train/replay/replay_buffer.h"
#include "train/step/feeds.h"
#include "train/step/step_metrics.h"

#include <algorithm>
#include <cmath>

namespace dllm::train {
namespace {

using graph::Value;

const model::ParamStore::Physical& trained_parameter(const ProgramSpec& spec, size_t index) {
  return spec.model->params().physical()[spec.trained[index]];
}

// Parts of a loss and metrics of a step share one list of names.
void check_part_name(const std::string& name) {
  if (find_named(step_metrics(), name, &StepMetric::name) == nullptr) return;
  fail_with_hint("give the part another name", Code::invalid_argument,
                 "a part of the loss has the name {}, which is a metric of every step", name);
}

// A graph, and the meaning of each of its inputs and outputs. Names are for people who read the
// graph.
class StepBuilder {
public:
  StepBuilder(const char* name, const ProgramSpec& spec)
      : spec_(spec), graph_(std::make_shared<graph::Graph>(name)), state_(spec.state.size()) {}

  graph::Graph& graph() { return *graph_; }

  // Adds the parameters of all parts that the loss reads as inputs, in order.
  model::Builder& model_inputs() {
    // An update that follows this program changes the weights too.
    const std::vector<size_t> changing = spec_.offloads() ? spec_.trained : std::vector<size_t>();
    builder_ = std::make_unique<model::Builder>(*graph_, *spec_.model, spec_.parts, changing);
    builder_->set_remat(spec_.remat);
    builder_->set_recompute(spec_.recompute);
    builder_->set_round_kept(spec_.round_kept);
    builder_->set_sequence_ranks(spec_.model->engine().mesh().size(graph::Axis::sequence));
    const std::vector<Value> all = builder_->parameters();
    const std::vector<size_t> indices = builder_->indices();
    for (size_t i = 0; i < all.size(); ++i) {
      inputs_.push_back({Place::Kind::parameter, indices[i]});
      if (std::ranges::binary_search(spec_.trained, indices[i])) parameters_.push_back(all[i]);
    }
    return *builder_;
  }
  // Adds the trained parameters as inputs.
  void trained_inputs() {
    for (size_t i = 0; i < spec_.trained.size(); ++i) {
      const model::ParamStore::Physical& entry = trained_parameter(spec_, i);
      parameters_.push_back(input({Place::Kind::parameter, spec_.trained[i]}, "param:" + entry.name,
                                  entry.type(), true));
    }
  }
  void state_inputs(StateUse use) {
    for (size_t i = 0; i < spec_.state.size(); ++i) {
      const StateEntry& entry = spec_.state[i];
      if (entry.use != use) continue;
      state_[i] = input({Place::Kind::state, i}, state_name(i), part_type(spec_, entry));
    }
  }
  Value scalars_input() {
    return input({Place::Kind::scalars}, "scalars",
                 {Shape{scalar_count(*spec_.optimizer)}, DType::f32, {}});
  }
  Value halted_input() { return input({Place::Kind::halted}, "halted", {Shape{}, DType::f32, {}}); }
  void control_input() {
    control_ = input({Place::Kind::control}, "control", {Shape{kControlCount}, DType::i32, {}});
  }
  std::map<std::string, Value> feed_inputs(const Batch& feed) {
    for (size_t i = 0; i < feed.size(); ++i) inputs_.push_back({Place::Kind::feed, i});
    std::map<std::string, Value> arrays =
        runtime::feed_inputs(*graph_, feed, batch_axes(spec_.model->engine().mesh()));
    if (const auto keys = arrays.find(kDropoutKeys); keys != arrays.end())
      builder_->set_dropout_keys(keys->second);
    return arrays;
  }

  const std::vector<Value>& parameters() const { return parameters_; }
  // Returns the values of one use, in the order of the parameters.
  std::vector<Value> state_of(StateUse use) const {
    std::vector<Value> made;
    for (size_t i = 0; i < state_.size(); ++i) {
      if (spec_.state[i].use == use) made.push_back(state_[i]);
    }
    return made;
  }
  // Returns the values of the optimizer for one parameter.
  std::vector<Value> optimizer_state(size_t parameter) const {
    std::vector<Value> made;
    for (size_t i = 0; i < state_.size(); ++i) {
      if (spec_.state[i].use == StateUse::optimizer && spec_.state[i].parameter == parameter)
        made.push_back(state_[i]);
    }
    return made;
  }

  void parameter_outputs(const std::vector<ParameterOutputs>& next) {
    for (size_t i = 0; i < next.size(); ++i) {
      const std::string name = "param:" + trained_parameter(spec_, i).name;
      output({Place::Kind::parameter, spec_.trained[i]}, name, next[i].parameter, name);
    }
  }
  void optimizer_outputs(const std::vector<ParameterOutputs>& next) {
    std::vector<size_t> used(next.size(), 0);
    for (size_t i = 0; i < spec_.state.size(); ++i) {
      if (spec_.state[i].use != StateUse::optimizer) continue;
      const size_t parameter = spec_.state[i].parameter;
      state_output(i, next[parameter].state.at(used[parameter]++));
    }
  }
  // Outputs the arrays of one use. `values` is in the order of the parameters; when it is empty,
  // the program does not write the arrays.
  void state_outputs(StateUse use, const std::vector<Value>& values) {
    size_t next = 0;
    for (size_t i = 0; i < spec_.state.size() && next < values.size(); ++i) {
      if (spec_.state[i].use == use) state_output(i, values[next++]);
    }
  }
  // Takes the arrays that the gradients overwrite. One rank makes new arrays in every run.
  void gradient_inputs() {
    if (spec_.model->engine().mesh().ranks() > 1) state_inputs(StateUse::sum);
  }
  void gradient_outputs(const std::vector<Value>& gradients) {
    size_t next = 0;
    for (size_t i = 0; i < spec_.state.size(); ++i) {
      if (spec_.state[i].use != StateUse::sum) continue;
      const std::string over = state_[i].defined() ? state_name(i) : "";
      output({Place::Kind::state, i}, state_name(i), gradients[next++], over, over.empty());
    }
  }
  void halted_output(Value finite) {
    output({Place::Kind::halted}, "halted", graph::subtract(graph::scalar(*graph_, 1.0f), finite));
  }

  // Ends the graph with the output "numbers"; undefined numbers become 0. The program sums the
  // requests of all processes, so that each process acts on them after the same step. On one rank
  // the sum is the value itself.
  StepGraph finish(const noise::Loss& loss, const UpdateDecision& decision) {
    std::vector<Value> row;
    std::vector<std::string> parts;
    const auto put = [&](Value value) {
      if (!value.defined()) value = graph::scalar(*graph_, 0.0f);
      row.push_back(graph::reshape(value, {1}));
    };
    put(loss.sum);
    put(loss.normalizer);
    put(decision.norm);
    put(as_number(decision.finite));
    put(as_number(decision.used));
    put(decision.scale);
    row.push_back(graph::convert(control_, DType::f32));
    for (const auto& part : loss.parts) {
      check_part_name(part.name);
      parts.push_back(part.name);
      put(part.sum);
      put(part.count);
    }
    std::vector<std::pair<std::string, size_t>> observed;
    for (const noise::Loss::Sum& sum : loss.observed) {
      observed.emplace_back(sum.name, static_cast<size_t>(sum.values.shape().count()));
      row.push_back(sum.values);
    }
    output({Place::Kind::numbers}, "numbers", graph::concat(row, 0));
    if (graph_->inputs().size() != inputs_.size())
      fail(Code::internal, "{} inputs of {} have a place", inputs_.size(), graph_->inputs().size());
    return {graph::simplify(*graph_), std::move(inputs_), std::move(outputs_), std::move(parts),
            std::move(observed)};
  }

private:
  static Value as_number(Value truth) {
    return truth.defined() ? graph::convert(truth, DType::f32) : truth;
  }
  std::string state_name(size_t index) const {
    const StateEntry& entry = spec_.state[index];
    return entry.name + ":" + trained_parameter(spec_, entry.parameter).name;
  }
  Value input(Place place, const std::string& name, const graph::ValueType& type,
              bool is_parameter = false) {
    inputs_.push_back(place);
    return graph_->input(name, type, is_parameter);
  }
  void output(Place place, const std::string& name, Value value, const std::string& over = {},
              bool is_brief = false) {
    outputs_.push_back(place);
    graph_->output(name, value, over, is_brief);
  }
  void state_output(size_t index, Value value) {
    output({Place::Kind::state, index}, state_name(index), value, state_name(index));
  }

  const ProgramSpec& spec_;
  std::shared_ptr<graph::Graph> graph_;
  std::unique_ptr<model::Builder> builder_;
  std::vector<Value> parameters_; // by trained parameter
  std::vector<Value> state_;      // by entry; undefined: no input
  Value control_;
  std::vector<Place> inputs_, outputs_;
};

// Adds everything that an update reads except the gradients.
UpdateValues update_inputs(StepBuilder& step, const ProgramSpec& spec) {
  step.state_inputs(StateUse::optimizer);
  step.state_inputs(StateUse::average);
  UpdateValues update;
  for (size_t i = 0; i < spec.trained.size(); ++i) {
    ParameterInputs in;
    in.layout = &trained_parameter(spec, i).spec;
    in.parameter = step.parameters()[i];
    in.state = step.optimizer_state(i);
    in.decay = spec.decay[i];
    in.rate = spec.rates[i];
    update.parameters.push_back(std::move(in));
  }
  update.averages = step.state_of(StateUse::average);
  return update;
}

void host_inputs(StepBuilder& step, const ProgramSpec& spec, UpdateValues& update) {
  update.scalars = step.scalars_input();
  if (spec.halts) update.halted = step.halted_input();
  step.control_input();
}

void set_gradients(UpdateValues& update, const std::vector<Value>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) update.parameters[i].gradient = gradients[i];
}

// Sums a number over the ranks, because each rank has the loss of its rows.
noise::Loss summed_over_ranks(noise::Loss loss) {
  const auto sum = [](Value& value) { value = graph::all_reduce(value, value.type().axes); };
  sum(loss.sum);
  sum(loss.normalizer);
  for (noise::Loss::Part& part : loss.parts) {
    sum(part.sum);
    sum(part.count);
  }
  for (noise::Loss::Sum& own : loss.observed) {
    own.values = graph::stop_gradient(own.values);
    sum(own.values);
  }
  return loss;
}

using NamedValues = std::map<std::string, Value>;

// Returns the arrays of the batch that is replayed, by their own names; empty where there is none.
// The loss reads the state of the objective as it is now.
NamedValues replayed_arrays(const NamedValues& arrays) {
  const std::string_view prefix = kReplayed;
  NamedValues made;
  for (const auto& [name, value] : arrays) {
    if (name.starts_with(prefix)) made[name.substr(prefix.size())] = value;
  }
  for (const auto& [name, value] : arrays) {
    if (!made.empty() && name.starts_with("state:")) made[name] = value;
  }
  return made;
}

// Returns the loss of a step, summed over the ranks. A replayed batch adds
//   replay_weight * mean of its alignment * normalizer,
// so that the update of micro-batches has replay_weight times the mean over those that replay.
noise::Loss loss_of_step(const ProgramSpec& spec, model::Builder& builder,
                         const NamedValues& arrays) {
  const NamedValues replayed = replayed_arrays(arrays);
  NamedValues own = arrays;
  std::erase_if(own, [](const auto& entry) { return entry.first.starts_with(kReplayed); });
  noise::Loss loss = summed_over_ranks(spec.objective->loss(builder, own));
  if (replayed.empty()) return loss;
  const auto keys = replayed.find(kDropoutKeys);
  builder.set_dropout_keys(keys == replayed.end() ? Value{} : keys->second);
  const noise::Loss again = summed_over_ranks(spec.replay->loss(builder, replayed));
  const Value mean = graph::divide(again.sum, at_least_one(again.normalizer));
  const Value weight = graph::scalar(builder.graph(), static_cast<float>(spec.replay_weight));
  loss.sum = graph::add(loss.sum, graph::multiply(graph::multiply(mean, weight),
                                                  graph::stop_gradient(loss.normalizer)));
  loss.parts.push_back(
      {"replay", graph::stop_gradient(again.sum), graph::stop_gradient(again.normalizer)});
  return loss;
}

StepGraph finish_decision(StepBuilder& step, const ProgramSpec& spec,
                          const UpdateDecision& decision, const noise::Loss& loss) {
  if (spec.halts) step.halted_output(graph::convert(decision.finite, DType::f32));
  return step.finish(loss, decision);
}

// Outputs the results of an update, and zeros for the sums that it used.
StepGraph finish_update(StepBuilder& step, const ProgramSpec& spec, const UpdateValues& update,
                        const std::vector<Value>& sums, const noise::Loss& loss) {
  const Updated next = clipped_update(step.graph(), *spec.optimizer, spec.options, update);
  step.parameter_outputs(next.parameters);
  step.optimizer_outputs(next.parameters);
  step.state_outputs(StateUse::average, next.averages);
  std::vector<Value> cleared;
  for (const Value& sum : sums)
    cleared.push_back(graph::vary(graph::broadcast(graph::scalar(step.graph(), 0.0f), sum.shape()),
                                  sum.type().axes));
  step.state_outputs(StateUse::sum, cleared);
  return finish_decision(step, spec, next.decision, loss);
}

} // namespace

namespace {

// Returns an update that has gradients alone, which is enough to decide it.
UpdateValues update_of(const std::vector<Value>& gradients) {
  UpdateValues update;
  update.parameters.resize(gradients.size());
  set_gradients(update, gradients);
  return update;
}

Value summed_objective(const ProgramSpec& spec, const noise::Loss& loss) {
  return spec.mean_of_means ? graph::divide(loss.sum, at_least_one(loss.normalizer)) : loss.sum;
}

// Builds fused and accumulate where the arrays are offloaded. `decides`: the program is fused.
StepGraph build_gradients(const ProgramSpec& spec, const Batch& feed, bool decides) {
  StepBuilder step(decides ? "train_gradients" : "train_part_gradients", spec);
  model::Builder& builder = step.model_inputs();
  step.gradient_inputs();
  UpdateValues inputs;
  if (decides)
    host_inputs(step, spec, inputs);
  else
    step.control_input();
  const auto arrays = step.feed_inputs(feed);

  const noise::Loss loss = loss_of_step(spec, builder, arrays);
  const Value objective = decides ? loss.sum : summed_objective(spec, loss);
  const std::vector<Value> gradients = graph::gradients(objective, step.parameters());
  step.gradient_outputs(gradients);
  if (!decides) return step.finish(loss, {});
  UpdateValues update = update_of(gradients);
  update.scalars = inputs.scalars;
  update.halted = inputs.halted;
  update.loss_sum = loss.sum;
  update.normalizer = loss.normalizer;
  return finish_decision(step, spec, decide_update(*spec.optimizer, update), loss);
}

// Builds apply where the arrays are offloaded: the sums are there as gradients.
StepGraph build_decision(const ProgramSpec& spec) {
  StepBuilder step("train_decision", spec);
  step.state_inputs(StateUse::sum);
  UpdateValues update = update_of(step.state_of(StateUse::sum));
  host_inputs(step, spec, update);
  update.normalizer = shared_scalar(*spec.optimizer, update.scalars, kNormalizer);
  update.loss_sum = shared_scalar(*spec.optimizer, update.scalars, kLossSum);
  return finish_decision(step, spec, decide_update(*spec.optimizer, update), {});
}

} // namespace

StepGraph build_fused(const ProgramSpec& spec, const Batch& feed) {
  if (spec.offloads()) return build_gradients(spec, feed, true);
  StepBuilder step("train_step", spec);
  model::Builder& builder = step.model_inputs();
  UpdateValues update = update_inputs(step, spec);
  host_inputs(step, spec, update);
  const auto arrays = step.feed_inputs(feed);

  const noise::Loss loss = loss_of_step(spec, builder, arrays);
  set_gradients(update, graph::gradients(loss.sum, step.parameters()));
  update.loss_sum = loss.sum;
  update.normalizer = loss.normalizer;
  return finish_update(step, spec, update, {}, loss);
}

StepGraph build_accumulate(const ProgramSpec& spec, const Batch& feed) {
  if (spec.offloads()) return build_gradients(spec, feed, false);
  StepBuilder step("train_accumulate", spec);
  model::Builder& builder = step.model_inputs();
  step.state_inputs(StateUse::sum);
  step.control_input();
  const auto arrays = step.feed_inputs(feed);

  const noise::Loss loss = loss_of_step(spec, builder, arrays);
  const std::vector<Value> gradients =
      graph::gradients(summed_objective(spec, loss), step.parameters());
  std::vector<Value> next = step.state_of(StateUse::sum);
  for (size_t i = 0; i < next.size(); ++i) next[i] = graph::add(next[i], gradients[i]);
  step.state_outputs(StateUse::sum, next);
  return step.finish(loss, {});
}

StepGraph build_apply(const ProgramSpec& spec) {
  if (spec.offloads()) return build_decision(spec);
  StepBuilder step("train_apply", spec);
  step.trained_inputs();
  UpdateValues update = update_inputs(step, spec);
  step.state_inputs(StateUse::sum);
  const std::vector<Value> sums = step.state_of(StateUse::sum);
  set_gradients(update, sums);
  host_inputs(step, spec, update);

  update.normalizer = shared_scalar(*spec.optimizer, update.scalars, kNormalizer);
  update.loss_sum = shared_scalar(*spec.optimizer, update.scalars, kLossSum);
  return finish_update(step, spec, update, sums, {});
}

SliceGraph build_slice(const ProgramSpec& spec, const ParameterSlice& slice) {
  const model::ParamStore::Physical& entry = trained_parameter(spec, slice.parameter);
  SliceGraph made{std::make_shared<graph::Graph>("train_slice"), {}};
  graph::Graph& graph = *made.graph;
  const auto own = static_cast<int64_t>(spec.optimizer->scalars.size());
  const int64_t rank = slice.box.size.rank();
  const std::string name = "param:" + entry.name;
  const Value parameter = graph.input(name, entry.type(), true);
  const Value gradient =
      graph.input("gradient", graph::ValueType{entry.part, DType::f32, entry.layout.axes()});
  const Value scalars = graph.input("scalars", DType::f32, Shape{own + kSliceScalarCount});
  const Value place = graph.input("begin", DType::i32, Shape{rank});
  std::vector<Value> begin;
  for (int64_t d = 0; d < rank; ++d) begin.push_back(scalar_at(place, d));

  model::ParamSpec layout = entry.spec; // of the slice
  if (layout.layers > 0) layout.layers = slice.box.size[0];
  SliceUpdate update;
  update.inputs = {.layout = &layout,
                   .parameter = graph::dynamic_slice(parameter, begin, slice.box.size.dims()),
                   .gradient = graph::dynamic_slice(gradient, begin, slice.box.size.dims()),
                   .state = {},
                   .decay = spec.decay[slice.parameter],
                   .rate = spec.rates[slice.parameter]};
  update.scalars = graph::slice_axis(scalars, 0, 0, own);
  update.scale = scalar_at(scalars, own + kSliceScale);
  update.decay = scalar_at(scalars, own + kSliceDecay);
  for (size_t i = 0; i < spec.state.size(); ++i) {
    const StateEntry& array = spec.state[i];
    if (array.parameter != slice.parameter || array.use == StateUse::sum) continue;
    const Slice box = slice_of_entry(spec, array, slice.box);
    const Value value =
        graph.input(array.name, graph::ValueType{box.size, DType::f32, entry.layout.axes()});
    made.entries.push_back(i);
    if (array.use == StateUse::average)
      update.average = value;
    else
      update.inputs.state.push_back(value);
  }
  const SliceOutputs next = updated_slice(graph, *spec.optimizer, spec.options, update);
  graph.output(name, graph::dynamic_update_slice(parameter, next.parameter.parameter, begin), name);
  const bool several = spec.model->engine().mesh().ranks() > 1;
  for (size_t i = 0; i < made.entries.size(); ++i) {
    const std::string& array = spec.state[made.entries[i]].name;
    const bool is_average = i == next.parameter.state.size();
    graph.output(array, is_average ? next.average : next.parameter.state[i], several ? array : "");
  }
  made.graph = graph::simplify(graph);
  return made;
}

std::vector<float> step_scalars(const ProgramSpec& spec, const UpdateInfo& info,
                                const UpdateNumbers& numbers) {
  std::vector<float> made;
  for (const double value : spec.optimizer->step_scalars(spec.options, info))
    made.push_back(static_cast<float>(value));
  const size_t own = spec.optimizer->scalars.size();
  if (made.size() != own)
    fail(Code::internal, "the optimizer made {} scalars, expected {}", made.size(), own);
  made.resize(own + kSharedScalarCount);
  made[own + kClip] = numbers.clip > 0 ? static_cast<float>(numbers.clip) : INFINITY;
  made[own + kEmaDecay] = static_cast<float>(spec.options.f64("ema"));
  made[own + kNormalizer] = static_cast<float>(numbers.normalizer);
  made[own + kLossSum] = static_cast<float>(numbers.loss_sum);
  return made;
}

} // namespace dllm::train
