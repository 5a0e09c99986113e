#pragma once
// The three programs of a trainer, as graphs: the fused step, and its halves accumulate and apply.

#include "graph/engine.h"
#include "model/builder.h"
#include "noise/objective.h"
#include "train/update.h"

#include <memory>
#include <string>
#include <vector>

namespace dllm::train {

// What an array of the trainer is for.
enum class StateUse {
  optimizer,  // declared by the optimizer
  average,    // moving average of the weights
  sum         // of the gradients of the micro-batches since the last update
};

// One array that the trainer keeps for one trained parameter, f32.
struct StateEntry {
  StateUse use = StateUse::optimizer;
  std::string name;         // "first" "ema" "sums": prefix in a state file and in the graphs
  size_t parameter = 0;     // index into ProgramSpec::trained
  model::ParamSpec layout;
};

// What does not change between the programs of one trainer.
struct ProgramSpec {
  const model::Model* model = nullptr;
  const noise::Objective* objective = nullptr;
  const Optimizer* optimizer = nullptr;
  Options options;              // of kind "trainer"
  std::vector<size_t> trained;  // indices into ParamStore::physical(), growing
  std::vector<bool> decay;      // by trained parameter
  // All arrays: those of the optimizer, name by name, averages where they are kept, sums. Of one name they are in the
  // order of the parameters, of one parameter in that of Optimizer::state.
  std::vector<StateEntry> state;
  bool ema = false;
  bool remat = false;
  bool halts = false;  // an update that is not finite leaves out all that follow
  // Option compat: each micro-batch is divided by its own count, as dllm-jax and nano-dlm do.
  bool mean_of_means = false;
};

// Options of kind "trainer". Fails with invalid_argument when nothing would be trained, or when an option belongs to an
// optimizer that is not chosen.
ProgramSpec program_spec(const model::Model& model, const noise::Objective& objective, const Options& options);
ProgramSpec program_spec(const model::Model& model, const noise::Objective& objective, const Options& options,
                         const Optimizer& optimizer);
// Bytes of the arrays of the optimizer and of the averages.
int64_t state_bytes(const ProgramSpec& spec);

// Words of input and output "control" i32(kControlCount): requests of every process for the step, summed over all.
enum Control { kStop, kCheckpoint, kError, kStep, kControlCount };

// The one output "numbers" f32(kNumberCount + 2 * parts): one trip to the device reads everything about a step. Behind
// these stand sum and count of each part of the loss. Words of control are exact below 2^24. What a program does not
// compute is 0.
enum Number {
  kNumberSum,
  kNumberNormalizer,
  kNumberGradNorm,
  kNumberFinite,  // 1 or 0; 0 as well for an update left out because an earlier one was not finite
  kNumberControl,
  kNumberCount = kNumberControl + kControlCount
};

// What an input or output of a program stands for.
struct Place {
  enum class Kind {
    parameter,  // index into ParamStore::physical()
    state,      // index into ProgramSpec::state
    scalars,    // f32(scalar_count)
    control,
    halted,     // f32 scalar: not 0 after an update that was not finite
    feed,       // index into the arrays of the feed
    numbers
  };
  Kind kind = Kind::numbers;
  size_t index = 0;
};

struct StepGraph {
  std::shared_ptr<graph::Graph> graph;
  std::vector<Place> inputs, outputs;  // in the order of the graph
  std::vector<std::string> parts;      // of the loss, in the order of "numbers"
};

// All take control and answer numbers; fused and apply take scalars, and halted where spec.halts, which their output
// halted continues; fused and accumulate take all parameters and the feed. Outputs of parameters and state are written
// over their inputs. An update that is not finite leaves every array as it was, to the bit.
StepGraph build_fused(const ProgramSpec& spec, const Batch& feed);
StepGraph build_accumulate(const ProgramSpec& spec, const Batch& feed);
StepGraph build_apply(const ProgramSpec& spec);  // of the sums, which are zero afterwards

}  // namespace dllm::train
