#pragma once
// The three programs of a trainer, as graphs and compiled: the fused step, and its halves
// accumulate and apply. Private to src/train.

#include "base/task.h"
#include "graph/engine.h"
#include "model/network/builder.h"
#include "noise/objective.h"
#include "train/step/feeds.h"
#include "train/optimizer.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
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
  bool halts = false;      // after an update that is not finite all later updates are left out
  // Option compat: each micro-batch is divided by its own count, as in dllm-jax and nano-dlm.
  bool mean_of_means = false;
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

// Words of input and output "control" i32(kControlCount). The input has the requests of one process
// for the step. The output is their sum over all processes.
enum Control { kStop, kCheckpoint, kControlCount };

// Indices of the output "numbers" f32(kNumberCount + 2 * parts + observed), from which one transfer
// reads the results of a step. After these numbers come the sum and the count of each part of the
// loss, then what it observed. Words of control are exact below 2^24. Numbers that a program does
// not compute are 0.
enum Number {
  kNumberSum,
  kNumberNormalizer,
  kNumberGradNorm,
  // 1 or 0. 0 also for an update that is left out because an earlier one was not finite.
  kNumberFinite,
  kNumberControl,
  kNumberCount = kNumberControl + kControlCount
};

// The meaning of an input or output of a program.
struct Place {
  enum class Kind {
    parameter, // index into ParamStore::physical()
    state,     // index into ProgramSpec::state
    scalars,   // f32(scalar_count)
    control,
    halted, // f32 scalar: not 0 after an update that was not finite
    feed,   // index into the arrays of the feed
    numbers
  };
  Kind kind = Kind::numbers;
  size_t index = 0;
};

struct StepGraph {
  std::shared_ptr<graph::Graph> graph;
  std::vector<Place> inputs, outputs; // in the order of the graph
  std::vector<std::string> parts;     // parts of the loss, in the order of "numbers"
  std::vector<std::pair<std::string, size_t>> observed; // names and sizes, in the same order
};

// Build the graph of one rank. `feed` has the shapes of the rank's rows. All graphs take control
// and have the output numbers. fused and accumulate take all parameters and the feed. fused and
// apply take scalars; where spec.halts they also take and output halted.
// Outputs of parameters and state are written over their inputs. An update that is not finite
// leaves every array unchanged, to the bit.
StepGraph build_fused(const ProgramSpec& spec, const Batch& feed);
StepGraph build_accumulate(const ProgramSpec& spec, const Batch& feed);
StepGraph build_apply(const ProgramSpec& spec); // sets the sums to 0

// --- compiled programs ---

enum class ProgramKind { fused, accumulate, apply };

struct FittedStep {
  StepGraph built;
  std::shared_ptr<graph::Program> program;
  int64_t recompute = 0;  // ProgramSpec::recompute of the graph
  int64_t peak_bytes = 0; // with the trainer's arrays that the program does not read
};

// Builds a graph and compiles it for the model's engine. With spec.memory the graph is the one that
// recomputes the fewest values and fits. Fails with resource_exhausted when no graph fits, and
// names the least memory that one needs. Fails with unimplemented on an engine that does not plan
// its memory. The task is checked before each plan; there may be 25 plans.
FittedStep fitted_step(const ProgramSpec& spec, ProgramKind kind, const Batch& feed,
                       const Task* task = nullptr);

// Everything that a program may read or replace.
struct Operands {
  model::ParamStore& params;
  std::vector<graph::BufferRef>& state; // in the order of ProgramSpec::state
  graph::BufferRef& halted;             // null: 0
  const std::vector<float>& scalars;    // empty: the program takes no scalars
  const std::vector<int32_t>& control;  // requests of this process
  const Feeds& feeds;
};

// The results of a run, read from the output "numbers".
struct StepNumbers {
  double sum = 0, normalizer = 0, grad_norm = 0;
  bool finite = true;
  std::map<std::string, std::pair<double, double>> parts; // sum, count
  noise::Observed observed;
  std::vector<int32_t> control; // requests of all processes
};

class TrainProgram {
public:
  // Builds and compiles. `feed` has the shapes of later runs. The task is checked as in
  // fitted_step.
  TrainProgram(const ProgramSpec& spec, ProgramKind kind, const Batch& feed,
               const Task* task = nullptr);

  // Starts one run and returns "numbers", which an engine that runs ahead computes later.
  // Parameters and state are then those after the run. The task is checked until the first array is
  // written to, because half an update would be neither the old nor the new weights.
  // A failure leaves everything unchanged, except graph::StateLost. That failure also marks the
  // parameters lost where the program writes them.
  graph::BufferRef run(const Operands& operands, const Task* task) const;
  StepNumbers read(const graph::Buffer& numbers) const; // waits for the run

  int64_t recompute() const { return recompute_; } // as FittedStep::recompute
  // Returns the flops of a run on these feeds, summed over all ranks. Rows that the head need not
  // compute are subtracted.
  double flops(const Feeds& feeds) const;

private:
  graph::BufferRef feed_array(const Feeds& feeds, size_t index) const;
  bool changes_weights() const { return kind_ != ProgramKind::accumulate; }

  ProgramKind kind_;
  graph::Engine& engine_;
  std::vector<Place> inputs_, outputs_;
  std::vector<std::string> parts_;
  std::vector<std::pair<std::string, size_t>> observed_;
  std::shared_ptr<graph::Program> program_;
  int64_t recompute_ = 0;
  std::vector<bool> donated_;          // by input
  std::vector<size_t> donated_params_; // physical indices
  double head_flops_per_row_ = 0;
  double head_rows_ = 0; // rows of the head in a feed, used or not
  graph::AxisSet batch_axes_;
};

} // namespace dllm::train
