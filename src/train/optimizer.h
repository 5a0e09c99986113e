#pragma once
// An optimizer as data: options, arrays of state, numbers of a step, and the update as a graph.
// Each optimizer has one file in optimizers/ and an entry in optimizers/table.h. Programs, state
// files, checkpoints, plans and descriptions loop over these declarations.

#include "base/options.h"
#include "graph/graph.h"
#include "model/params/param_map.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::train {

// An array that an optimizer keeps for one parameter: f32, zero at first, written by every update.
struct StateArray {
  // "first": prefix of its tensors in a state file ("first.model.norm.weight").
  std::string name;
  model::ParamSpec layout; // its shape, and the part of each logical tensor in it
};

// Returns a layout equal to the parameter's: (layers, out, in), (layers, experts, out, in) or
// (layers, size).
model::ParamSpec like_parameter(const model::ParamSpec& parameter);
// Return layouts of factored moments, for matrices only. per_row leaves out the last axis: (layers,
// out). per_column leaves out the axis of rows in each logical tensor: (layers, tensors, in).
model::ParamSpec per_row(const model::ParamSpec& parameter);
model::ParamSpec per_column(const model::ParamSpec& parameter);

// A number that the host gives to every update, f32. With all `neutral` numbers and a gradient of 0
// an update leaves every array unchanged.
struct StepScalar {
  const char* name;
  float neutral;
};

// The facts about one update from which the host computes its scalars.
struct UpdateInfo {
  double lr = 0; // after warm-up and schedule
  double weight_decay = 0;
  int64_t number = 1; // number of the update; updates that were left out do not count
};

// The learning rate and weight decay of some parameters, relative to the trainer's.
struct GroupRate {
  float lr_factor = 1;     // factor of the rate of this update
  float weight_decay = -1; // in place of the trainer's; negative: the trainer's
  friend bool operator==(const GroupRate&, const GroupRate&) = default;
};
struct ParameterGroup {
  std::string pattern; // pattern of logical names
  GroupRate rate;
  bool has_lr = false; // its own, in place of that of layer_decay
};
// Parses option groups. Fails with invalid_argument for an unknown word.
std::vector<ParameterGroup> parameter_groups(const Options& options);
// Returns the first group that matches a tensor of the stack, or null. Stacks are cut at the ends
// of patterns (ParamStore::cut_at).
const ParameterGroup* find_group(const std::vector<ParameterGroup>& groups,
                                 const model::ParamSpec& parameter);

// The inputs of the update of one parameter, as graph values.
struct ParameterInputs {
  const model::ParamSpec* layout = nullptr;
  graph::Value parameter;
  graph::Value gradient;           // before division and clipping: see scaled_gradient()
  std::vector<graph::Value> state; // in the order of Optimizer::state
  bool decay = true;               // false: without weight decay
  GroupRate rate = {};             // already in the scalars "lr" and "weight_decay"
};
struct ParameterOutputs {
  graph::Value parameter;
  std::vector<graph::Value> state;
};

// The values that all parameters of one update share.
struct UpdateContext {
  graph::Graph& graph;
  const Options& options; // of kind "trainer"
  // f32(number of scalars), in the order of Optimizer::scalars.
  graph::Value scalars;
  // f32 scalar: 1 / count and clipping. 0 leaves out the gradient, finite or not.
  graph::Value gradient_scale;
};
// Returns gradient * gradient_scale, and 0 where the scale is 0, because 0 times NaN is NaN.
graph::Value scaled_gradient(const UpdateContext& context, graph::Value gradient);
// Returns one number of an f32 vector as a scalar.
graph::Value scalar_at(graph::Value scalars, int64_t index);

struct Optimizer {
  std::string name;
  // Rows of the schema "trainer". Rows of two optimizers with the same key must be equal.
  std::vector<OptionSpec> options;
  std::vector<StepScalar> scalars;
  // true: an update needs more than its own elements of a matrix (rows, norms), so no parameter may
  // be cut over ranks.
  bool whole_matrices = false;
  // Returns true for a parameter that it updates by its own rule, and false for one that AdamW
  // updates in its place. Null: it updates all.
  bool (*is_own)(const model::ParamSpec& parameter) = nullptr;
  // Fails with invalid_argument for options that exclude each other. Null: no options do.
  void (*check)(const Options& options) = nullptr;
  // Returns the arrays of one parameter. They may depend on its role and shape.
  std::vector<StateArray> (*state)(const Options& options,
                                   const model::ParamSpec& parameter) = nullptr;
  std::vector<double> (*step_scalars)(const Options& options, const UpdateInfo& info) = nullptr;
  // Returns one result per parameter, in order. Each resulting array replaces its input. A result
  // depends on its own parameter alone, and without whole_matrices on its own elements.
  std::vector<ParameterOutputs> (*update)(const UpdateContext& context,
                                          std::span<const ParameterInputs> parameters) = nullptr;
};

const std::vector<Optimizer>& optimizers(); // the first is the default
std::vector<std::string> optimizer_names();
const Optimizer& find_optimizer(std::string_view name); // not_found with the nearest name
// Returns the options of all optimizers, each key once.
std::vector<OptionSpec> optimizer_options();
// Returns the optimizer that the options choose. Fails with invalid_argument when an option of
// another optimizer has a value other than its default.
const Optimizer& optimizer_of(const Options& options);

// --- the update of all parameters: global norm, clipping, the optimizer, the moving average ---

// Indices of numbers from the host. The vector is f32(n + kSharedScalarCount): n numbers of the
// optimizer, then these.
enum SharedScalar {
  kClip,       // largest global norm; infinity: no limit
  kEmaDecay,   // decay of the moving average
  kNormalizer, // for apply: sum over all micro-batches
  kLossSum,    // for apply: sum over all micro-batches
  kSharedScalarCount
};
int64_t scalar_count(const Optimizer& optimizer);
graph::Value shared_scalar(const Optimizer& optimizer, graph::Value scalars, SharedScalar which);

struct UpdateValues {
  std::vector<ParameterInputs> parameters;
  std::vector<graph::Value> averages; // one for each parameter, or empty
  graph::Value loss_sum;              // f32 scalar: a loss that is not finite leaves the update out
  graph::Value normalizer;            // f32 scalar: gradients are divided by max(1, normalizer)
  graph::Value scalars;               // f32(scalar_count)
  graph::Value halted;                // f32 scalar: not 0: the update is left out; undefined: 0
};
// What all gradients together decide about an update.
struct UpdateDecision {
  graph::Value norm;   // f32 scalar: 2-norm of all gradients after division, before clipping
  graph::Value finite; // u8 scalar: 0: every array is unchanged, to the bit
  graph::Value used;   // u8 scalar: 0: not finite, or no target counts; no array changes
  graph::Value scale;  // f32 scalar: factor of the gradients, 0 where the update is not used
};
UpdateDecision decide_update(const Optimizer& optimizer, const UpdateValues& update);

struct Updated {
  std::vector<ParameterOutputs> parameters;
  std::vector<graph::Value> averages;
  UpdateDecision decision;
};
Updated clipped_update(graph::Graph& graph, const Optimizer& optimizer, const Options& options,
                       const UpdateValues& update);

// The update of one slice of a parameter, with the numbers of a decision that was made before.
struct SliceUpdate {
  ParameterInputs inputs;
  graph::Value average; // undefined: no average is kept
  graph::Value scalars; // f32(n) of the optimizer
  graph::Value scale;   // f32 scalar, as in UpdateDecision
  graph::Value decay;   // f32 scalar: of the average
};
struct SliceOutputs {
  ParameterOutputs parameter;
  graph::Value average;
};
SliceOutputs updated_slice(graph::Graph& graph, const Optimizer& optimizer, const Options& options,
                           const SliceUpdate& slice);

graph::Value at_least_one(graph::Value count);

} // namespace dllm::train
