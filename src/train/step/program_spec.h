#pragma once
// The spec that all programs of one trainer share: the parts that the loss reads, the trained
// parameters, the arrays that the trainer keeps, and settings. Private to src/train.

#include "base/json.h"
#include "graph/engine.h"
#include "model/network/builder.h"
#include "noise/objective.h"
#include "train/optimizer.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dllm::train {

// The purpose of an array of the trainer.
enum class StateUse {
  optimizer, // declared by the optimizer
  average,   // moving average of the weights
  sum        // sum of the gradients of micro-batches since the last update
};

// One array that the trainer keeps for one trained parameter, f32.
struct StateEntry {
  StateUse use = StateUse::optimizer;
  std::string name;     // "first" "ema" "sums": prefix in state files and graphs
  size_t parameter = 0; // index into ProgramSpec::trained
  model::ParamSpec layout;
};

// The settings that all programs of one trainer share.
struct ProgramSpec {
  const model::Model* model = nullptr;
  const noise::Objective* objective = nullptr;
  const Optimizer* optimizer = nullptr;
  std::shared_ptr<const model::Selection> selection; // of the model's parameters
  model::PartList parts;                             // the parts that the loss reads
  Options options;                                   // of kind "trainer"
  std::vector<size_t> trained;  // indices into ParamStore::physical(), ascending
  std::vector<bool> decay;      // by trained parameter
  std::vector<GroupRate> rates; // by trained parameter
  // All arrays: first the optimizer's, name by name, then the averages if there are any, then the
  // sums. Arrays of one name are in the order of the parameters. Arrays of one parameter are in the
  // order of Optimizer::state.
  std::vector<StateEntry> state;
  bool ema = false;
  bool remat = false;
  // Values of a layer that the gradient recomputes, in addition to the cheap ones.
  int64_t recompute = 0;
  bool round_kept = false; // activations are kept as bf16 for the gradient
  int64_t memory = 0;      // bytes that a step may use; 0: any number
  std::string offload;     // option offload: place of the arrays outside of the engine; "": in it
  int64_t window = 0;      // bytes of one rank for the slices of an offloaded update
  bool halts = false;      // after an update that is not finite all later updates are left out
  // The terms of micro-batches that are replayed, and their weight. Null: none is.
  noise::ObjectiveRef replay;
  double replay_weight = 0;
  // Option compat: each micro-batch is divided by its own count, as in dllm-jax and nano-dlm.
  bool mean_of_means = false;

  bool offloads() const { return !offload.empty(); }
};

// Changes a model before the first step. The model gets a mask token where the objective needs one,
// the objective's attention and shift, and f32 masters of trained parameters. Fails with
// failed_precondition when there is no room for a mask token. Fails with not_found, before the
// model changes, when a pattern of freeze or groups matches nothing.
void prepare_model(model::Model& model, const noise::Objective& objective, const Options& options);

// Returns the spec of a trainer with options of kind "trainer". Fails with invalid_argument when no
// parameter would be trained, or when an option belongs to an optimizer that is not chosen.
ProgramSpec program_spec(const model::Model& model, const noise::Objective& objective,
                         const Options& options);
ProgramSpec program_spec(const model::Model& model, const noise::Objective& objective,
                         const Options& options, const Optimizer& optimizer);
// Returns the type of a state array in a graph, for the part of one rank.
graph::ValueType part_type(const ProgramSpec& spec, const StateEntry& entry);
// Returns the bytes of the optimizer's arrays and of the averages, on one rank.
int64_t state_bytes(const ProgramSpec& spec);
// Returns the bytes of these arrays that the engine holds: 0 where they are offloaded.
int64_t resident_state_bytes(const ProgramSpec& spec);
// Describes the optimizer: name, arrays with their bytes, scalars. Where rates or decays differ:
// "rates", a list of {"lr_factor", "weight_decay", "parameters", "tensors"}.
Json describe_optimizer(const ProgramSpec& spec);

} // namespace dllm::train
