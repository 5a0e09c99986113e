#include "train/optimizer.h"

#include "base/error.h"
#include "base/named_table.h"
#include "graph/ops.h"
#include "train/optimizers/table.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>

namespace dllm::train {

model::ParamSpec like_parameter(const model::ParamSpec& parameter) {
  return parameter;
}

namespace {

void check_matrix(const model::ParamSpec& parameter) {
  if (parameter.element.rank() < 2)
    fail(Code::internal, "{} is a vector and has no rows", parameter.name);
}

bool declares(const Optimizer& optimizer, const std::string& key) {
  return std::ranges::find(optimizer.options, key, &OptionSpec::key) != optimizer.options.end();
}

} // namespace

model::ParamSpec per_row(const model::ParamSpec& parameter) {
  check_matrix(parameter);
  model::ParamSpec made = parameter;
  made.element = parameter.element.without(parameter.element.rank() - 1);
  for (model::ParamPiece& piece : made.pieces) piece.transpose = piece.between = false;
  return made;
}

model::ParamSpec per_column(const model::ParamSpec& parameter) {
  check_matrix(parameter);
  model::ParamSpec made = parameter;
  const int64_t columns = parameter.element[parameter.element.rank() - 1];
  made.element = {static_cast<int64_t>(parameter.pieces.size()), columns};
  for (model::ParamPiece& piece : made.pieces) {
    piece.rows = 1;
    piece.transpose = piece.between = false;
  }
  return made;
}

graph::Value scaled_gradient(const UpdateContext& context, graph::Value gradient) {
  const graph::Value zero = graph::scalar(context.graph, 0.0f);
  return graph::select(graph::equal(context.gradient_scale, zero),
                       graph::broadcast(zero, gradient.shape()),
                       graph::multiply(gradient, context.gradient_scale));
}

graph::Value scalar_at(graph::Value scalars, int64_t index) {
  return graph::reshape(graph::slice_axis(scalars, 0, index, index + 1), {});
}

const std::vector<Optimizer>& optimizers() {
  static const std::vector<Optimizer> all = [] {
    std::vector<Optimizer> made;
    for (const auto& make : optimizer_files::kTable) made.push_back(make());
    return made;
  }();
  return all;
}

std::vector<std::string> optimizer_names() {
  return names_of(optimizers(), &Optimizer::name);
}

const Optimizer& find_optimizer(std::string_view name) {
  return need_named(optimizers(), name, &Optimizer::name, {"optimizer"});
}

std::vector<OptionSpec> optimizer_options() {
  std::vector<OptionSpec> rows;
  for (const Optimizer& optimizer : optimizers()) {
    for (const OptionSpec& row : optimizer.options) {
      if (std::ranges::find(rows, row.key, &OptionSpec::key) != rows.end()) continue;
      rows.push_back(row);
      rows.back().group = "optimizer";
    }
  }
  return rows;
}

const Optimizer& optimizer_of(const Options& options) {
  const Optimizer& chosen = find_optimizer(options.str("optimizer"));
  const Json given = options.to_json(), defaults = Options(options.schema()).to_json();
  // Options that were copied with to_json and set_json have every key. Keys of other optimizers
  // then have their defaults.
  const bool copied = std::ranges::all_of(
      given.items(), [&](const auto& row) { return options.is_set(row.key()); });
  for (const Optimizer& other : optimizers()) {
    for (const OptionSpec& row : other.options) {
      if (declares(chosen, row.key) || !options.is_set(row.key)) continue;
      if (copied && given.at(row.key) == defaults.at(row.key)) continue;
      fail_with_hint("set optimizer = " + other.name + ", or leave " + row.key + " out",
                     Code::invalid_argument,
                     "option {} is an option of optimizer {}, this trainer has optimizer {}",
                     row.key, other.name, chosen.name);
    }
  }
  if (chosen.check != nullptr) chosen.check(options);
  parameter_groups(options);
  return chosen;
}

int64_t scalar_count(const Optimizer& optimizer) {
  return static_cast<int64_t>(optimizer.scalars.size()) + kSharedScalarCount;
}

graph::Value shared_scalar(const Optimizer& optimizer, graph::Value scalars, SharedScalar which) {
  return scalar_at(scalars, static_cast<int64_t>(optimizer.scalars.size()) + which);
}

graph::Value at_least_one(graph::Value count) {
  return graph::maximum(count, graph::scalar(*count.graph, 1.0f));
}

namespace {

// Returns the 2-norm of all gradients together.
graph::Value global_norm(graph::Graph& graph, const std::vector<ParameterInputs>& parameters) {
  graph::Value squares = graph::scalar(graph, 0.0f);
  std::vector<graph::Value> cut; // sums over the parts of one rank, one sum per set of axes
  for (const ParameterInputs& in : parameters) {
    const graph::Value own = graph::sum_of_squares(in.gradient);
    const graph::AxisSet axes = own.type().axes;
    if (axes.empty()) {
      squares = graph::add(squares, own);
      continue;
    }
    const auto same = std::ranges::find(cut, axes, [](graph::Value v) { return v.type().axes; });
    if (same == cut.end())
      cut.push_back(own);
    else
      *same = graph::add(*same, own);
  }
  for (const graph::Value& sum : cut)
    squares = graph::add(squares, graph::all_reduce(sum, sum.type().axes));
  return graph::sqrt(squares);
}

// Returns the scalars of an update that changes nothing.
Tensor neutral_scalars(const Optimizer& optimizer) {
  std::vector<float> neutral;
  for (const StepScalar& scalar : optimizer.scalars) neutral.push_back(scalar.neutral);
  const auto count = static_cast<int64_t>(neutral.size());
  return Tensor::from(Shape{count}, neutral);
}

} // namespace

namespace {

// Returns the scalars of an optimizer with the rate and weight decay of a group.
graph::Value scalars_of_group(const Optimizer& optimizer, graph::Value scalars,
                              const GroupRate& rate) {
  if (rate == GroupRate{}) return scalars;
  std::vector<graph::Value> made;
  for (size_t i = 0; i < optimizer.scalars.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const std::string_view name = optimizer.scalars[i].name;
    graph::Value value = graph::slice_axis(scalars, 0, at, at + 1);
    if (name == "lr") value = graph::multiply(value, graph::scalar(*value.graph, rate.lr_factor));
    if (name == "weight_decay" && rate.weight_decay >= 0)
      value = graph::full(*value.graph, {1}, rate.weight_decay);
    made.push_back(value);
  }
  return graph::concat(made, 0);
}

// Updates the parameters group by group. The results are in the order of the parameters.
std::vector<ParameterOutputs> update_groups(const UpdateContext& context,
                                            const Optimizer& optimizer, graph::Value changes,
                                            const std::vector<ParameterInputs>& parameters) {
  const graph::Value neutral = graph::constant(context.graph, neutral_scalars(optimizer));
  std::vector<ParameterOutputs> made(parameters.size());
  std::vector<GroupRate> done;
  for (const ParameterInputs& first : parameters) {
    if (std::ranges::find(done, first.rate) != done.end()) continue;
    done.push_back(first.rate);
    std::vector<ParameterInputs> group;
    std::vector<size_t> places;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].rate != first.rate) continue;
      group.push_back(parameters[i]);
      places.push_back(i);
    }
    const graph::Value used =
        graph::select(changes, scalars_of_group(optimizer, context.scalars, first.rate), neutral);
    const std::vector<ParameterOutputs> next =
        optimizer.update({context.graph, context.options, used, context.gradient_scale}, group);
    if (next.size() != group.size()) {
      fail(Code::internal, "optimizer {} updates {} of {} parameters", optimizer.name, next.size(),
           group.size());
    }
    for (size_t i = 0; i < next.size(); ++i) made[places[i]] = next[i];
  }
  return made;
}

} // namespace

// An update is left out when a number is not finite. It is also left out when no target counts:
// every token of the batch is given, so loss and gradients are 0. The update then runs with neutral
// scalars and gradient scale 0, which leaves every array unchanged. So no second copy of the state
// is needed.
UpdateDecision decide_update(const Optimizer& optimizer, const UpdateValues& update) {
  graph::Graph& graph = *update.scalars.graph;
  const graph::Value one = graph::scalar(graph, 1.0f), zero = graph::scalar(graph, 0.0f);
  const graph::Value count = at_least_one(update.normalizer);
  UpdateDecision made;
  made.norm = graph::divide(global_norm(graph, update.parameters), count);
  made.finite = graph::logical_and(graph::is_finite(made.norm), graph::is_finite(update.loss_sum));
  if (update.halted.defined())
    made.finite = graph::logical_and(made.finite, graph::equal(update.halted, zero));

  // Without a target, weight decay and moments must not move the weights.
  const graph::Value empty =
      graph::logical_and(graph::equal(made.norm, zero), graph::equal(update.loss_sum, zero));
  made.used = graph::logical_and(made.finite, graph::logical_not(empty));
  const graph::Value clip = shared_scalar(optimizer, update.scalars, kClip);
  const graph::Value shrink =
      graph::select(graph::greater(made.norm, clip), graph::divide(clip, made.norm), one);
  made.scale = graph::select(made.used, graph::divide(shrink, count), zero);
  return made;
}

namespace {

graph::Value moved_average(graph::Value average, graph::Value parameter, graph::Value decay) {
  const graph::Value one = graph::scalar(*average.graph, 1.0f);
  return graph::add(graph::multiply(average, decay),
                    graph::multiply(parameter, graph::subtract(one, decay)));
}

} // namespace

Updated clipped_update(graph::Graph& graph, const Optimizer& optimizer, const Options& options,
                       const UpdateValues& update) {
  Updated next;
  next.decision = decide_update(optimizer, update);
  const auto own = static_cast<int64_t>(optimizer.scalars.size());
  const graph::Value given = graph::slice_axis(update.scalars, 0, 0, own);
  next.parameters = update_groups({graph, options, given, next.decision.scale}, optimizer,
                                  next.decision.used, update.parameters);
  const graph::Value decay =
      graph::select(next.decision.used, shared_scalar(optimizer, update.scalars, kEmaDecay),
                    graph::scalar(graph, 1.0f));
  for (size_t i = 0; i < update.averages.size(); ++i) {
    next.averages.push_back(moved_average(update.averages[i], next.parameters[i].parameter, decay));
  }
  return next;
}

SliceOutputs updated_slice(graph::Graph& graph, const Optimizer& optimizer, const Options& options,
                           const SliceUpdate& slice) {
  const graph::Value scalars = scalars_of_group(optimizer, slice.scalars, slice.inputs.rate);
  SliceOutputs next;
  next.parameter =
      optimizer.update({graph, options, scalars, slice.scale}, {&slice.inputs, 1}).at(0);
  if (slice.average.defined())
    next.average = moved_average(slice.average, next.parameter.parameter, slice.decay);
  return next;
}

} // namespace dllm::train
