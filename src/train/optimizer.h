#pragma once
// What an optimizer is, as data: options, arrays of state, numbers of a step, and the update as a graph. One file an
// optimizer in optimizers/, listed in optimizers/table.h. Programs, state files, checkpoints, plans and descriptions
// loop over what is declared here.

#include "base/options.h"
#include "graph/graph.h"
#include "model/param_map.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::train {

// An array that an optimizer keeps for one parameter: f32, zero at first, written by every update.
struct StateArray {
  std::string name; // "first": prefix of its tensors in a state file ("first.model.norm.weight")
  model::ParamSpec layout; // its shape, and the part of each logical tensor in it
};

// Layouts for the arrays of a parameter (layers, out, in), (layers, experts, out, in) or (layers, size).
model::ParamSpec like_parameter(const model::ParamSpec& parameter);
// Factored moments, of matrices only. per_row: the last axis left out, (layers, out). per_column: the axis of rows left
// out in each logical tensor, (layers, tensors, in).
model::ParamSpec per_row(const model::ParamSpec& parameter);
model::ParamSpec per_column(const model::ParamSpec& parameter);

// A number that the host gives to every update, f32. neutral: with these numbers and a gradient of 0 the update gives
// every array back as it was.
struct StepScalar {
  const char* name;
  float neutral;
};

// One update, as the host computes its scalars.
struct UpdateInfo {
  double lr = 0; // after warm-up and schedule
  double weight_decay = 0;
  int64_t number = 1; // of the update; those left out are not counted
};

// How the rate and the weight decay of some parameters differ from those of the rest.
struct GroupRate {
  float lr_factor = 1;     // of the rate of this update
  float weight_decay = -1; // in place of the trainer's; negative: that one
  friend bool operator==(const GroupRate&, const GroupRate&) = default;
};
struct ParameterGroup {
  std::string pattern; // of logical names
  GroupRate rate;
};
// Option groups. Fails with invalid_argument for words that it does not know.
std::vector<ParameterGroup> parameter_groups(const Options& options);
// Of the first group that matches a tensor of the stack; stacks are cut where a pattern ends (ParamStore::cut_at).
GroupRate group_rate(const std::vector<ParameterGroup>& groups, const model::ParamSpec& parameter);

// The update of one parameter, as graph values.
struct ParameterInputs {
  const model::ParamSpec* layout = nullptr;
  graph::Value parameter;
  graph::Value gradient;           // before division and clipping: scaled_gradient()
  std::vector<graph::Value> state; // in the order of Optimizer::state
  bool decay = true;               // false: without weight decay
  GroupRate rate = {};             // optimizers read it in their scalars "lr" and "weight_decay"
};
struct ParameterOutputs {
  graph::Value parameter;
  std::vector<graph::Value> state;
};

// What all parameters of one update share.
struct UpdateContext {
  graph::Graph& graph;
  const Options& options; // of kind "trainer"
  graph::Value scalars;   // f32(number of scalars), in the order of Optimizer::scalars
  graph::Value
      gradient_scale; // f32 scalar: 1 / count and clipping; 0: the gradient is left out, finite or not
};
// gradient * gradient_scale, and 0 where the scale is 0: 0 times a NaN would be one.
graph::Value scaled_gradient(const UpdateContext& context, graph::Value gradient);
// One number of an f32 vector, as a scalar.
graph::Value scalar_at(graph::Value scalars, int64_t index);

struct Optimizer {
  std::string name;
  std::vector<OptionSpec>
      options; // rows of the schema "trainer"; rows that two optimizers share must be equal
  std::vector<StepScalar> scalars;
  // An update needs more than its own elements of a matrix (rows, norms), so that no parameter may be cut over ranks.
  bool whole_matrices = false;
  // Fails with invalid_argument for options that exclude each other; null: none do.
  void (*check)(const Options& options) = nullptr;
  // The arrays of one parameter; may depend on its role and shape.
  std::vector<StateArray> (*state)(const Options& options,
                                   const model::ParamSpec& parameter) = nullptr;
  std::vector<double> (*step_scalars)(const Options& options, const UpdateInfo& info) = nullptr;
  // One result for each parameter, in order; each array takes the place of its input.
  std::vector<ParameterOutputs> (*update)(const UpdateContext& context,
                                          std::span<const ParameterInputs> parameters) = nullptr;
};

const std::vector<Optimizer>& optimizers(); // the first is the default
std::vector<std::string> optimizer_names();
const Optimizer& find_optimizer(std::string_view name); // not_found with the nearest name
// The options of all optimizers, each key once.
std::vector<OptionSpec> optimizer_options();
// The optimizer that the options choose. Fails with invalid_argument when an option of another one was set to something
// that is not its default.
const Optimizer& optimizer_of(const Options& options);

// --- the update of all parameters: global norm, clipping, the optimizer, the moving average ---

// Numbers from the host, f32(n + kSharedScalarCount): first the n of the optimizer, then these.
enum SharedScalar {
  kClip,       // largest global norm; infinity: any
  kEmaDecay,   // of the moving average
  kNormalizer, // apply: of all micro-batches
  kLossSum,    // apply: of all micro-batches
  kSharedScalarCount
};
int64_t scalar_count(const Optimizer& optimizer);
graph::Value shared_scalar(const Optimizer& optimizer, graph::Value scalars, SharedScalar which);

struct UpdateValues {
  std::vector<ParameterInputs> parameters;
  std::vector<graph::Value> averages; // one for each parameter, or none
  graph::Value loss_sum;              // f32 scalar, checked for being finite
  graph::Value normalizer;            // f32 scalar: gradients are divided by max(1, it)
  graph::Value scalars;               // f32(scalar_count)
  graph::Value halted;                // f32 scalar: not 0 leaves the update out; undefined: 0
};
struct Updated {
  std::vector<ParameterOutputs> parameters;
  std::vector<graph::Value> averages;
  graph::Value norm;   // f32 scalar: 2-norm of all gradients after division, before clipping
  graph::Value finite; // u8 scalar: 0 means that every array is what it was, to the bit
};
Updated clipped_update(graph::Graph& graph, const Optimizer& optimizer, const Options& options,
                       const UpdateValues& update);

graph::Value at_least_one(graph::Value count);

} // namespace dllm::train
