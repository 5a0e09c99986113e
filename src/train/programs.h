#pragma once
// The three programs of a trainer: the fused step, and its halves accumulate and apply. As graphs, and compiled. Private
// to src/train.

#include "base/task.h"
#include "graph/engine.h"
#include "model/builder.h"
#include "noise/objective.h"
#include "train/feeds.h"
#include "train/optimizer.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dllm::train {

// What an array of the trainer is for.
enum class StateUse {
  optimizer, // declared by the optimizer
  average,   // moving average of the weights
  sum        // of the gradients of the micro-batches since the last update
};

// One array that the trainer keeps for one trained parameter, f32.
struct StateEntry {
  StateUse use = StateUse::optimizer;
  std::string name;     // "first" "ema" "sums": prefix in a state file and in the graphs
  size_t parameter = 0; // index into ProgramSpec::trained
  model::ParamSpec layout;
};

// What does not change between the programs of one trainer.
struct ProgramSpec {
  const model::Model* model = nullptr;
  const noise::Objective* objective = nullptr;
  const Optimizer* optimizer = nullptr;
  std::shared_ptr<const model::Selection> selection; // of the model's parameters
  model::PartList parts;                             // that the loss reads
  Options options;                                   // of kind "trainer"
  std::vector<size_t> trained;                       // indices into ParamStore::physical(), growing
  std::vector<bool> decay;                           // by trained parameter
  std::vector<GroupRate> rates;                      // by trained parameter
  // All arrays: those of the optimizer, name by name, averages where they are kept, sums. Of one name they are in the
  // order of the parameters, of one parameter in that of Optimizer::state.
  std::vector<StateEntry> state;
  bool ema = false;
  bool remat = false;
  int64_t recompute =
      0; // values of a layer that the gradient computes again, beyond the cheap ones
  bool round_kept = false; // activations are kept for the gradient as bf16
  int64_t memory = 0;      // bytes that a step may take; 0: any
  bool halts = false;      // an update that is not finite leaves out all that follow
  // Option compat: each micro-batch is divided by its own count, as dllm-jax and nano-dlm do.
  bool mean_of_means = false;
};

// What a trainer changes in a model before the first step: a mask token where the objective needs one, the attention and
// shift it is trained with, and f32 masters of what it trains. Fails with failed_precondition when there is no place for a
// mask token, and with not_found for a pattern of freeze or groups that matches nothing, before the model is changed.
void prepare_model(model::Model& model, const noise::Objective& objective, const Options& options);

// Options of kind "trainer". Fails with invalid_argument when nothing would be trained, or when an option belongs to an
// optimizer that is not chosen.
ProgramSpec program_spec(const model::Model& model, const noise::Objective& objective,
                         const Options& options);
ProgramSpec program_spec(const model::Model& model, const noise::Objective& objective,
                         const Options& options, const Optimizer& optimizer);
// The type of a state array in a graph: the part of one rank.
graph::ValueType part_type(const ProgramSpec& spec, const StateEntry& entry);
// Bytes of the arrays of the optimizer and of the averages, on one rank.
int64_t state_bytes(const ProgramSpec& spec);

// Words of input and output "control" i32(kControlCount): requests of every process for the step, summed over all.
enum Control { kStop, kCheckpoint, kControlCount };

// The one output "numbers" f32(kNumberCount + 2 * parts): one trip to the device reads everything about a step. After
// these come sum and count of each part of the loss. Words of control are exact below 2^24. What a program does not
// compute is 0.
enum Number {
  kNumberSum,
  kNumberNormalizer,
  kNumberGradNorm,
  kNumberFinite, // 1 or 0; 0 as well for an update left out because an earlier one was not finite
  kNumberControl,
  kNumberCount = kNumberControl + kControlCount
};

// What an input or output of a program stands for.
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
  std::vector<std::string> parts;     // of the loss, in the order of "numbers"
};

// The graph of one rank; feed: of the shapes of its rows.
// All take control and have the output numbers; fused and apply take scalars, and halted where spec.halts, which their output
// halted continues; fused and accumulate take all parameters and the feed. Outputs of parameters and state are written
// over their inputs. An update that is not finite leaves every array as it was, to the bit.
StepGraph build_fused(const ProgramSpec& spec, const Batch& feed);
StepGraph build_accumulate(const ProgramSpec& spec, const Batch& feed);
StepGraph build_apply(const ProgramSpec& spec); // of the sums, which are zero afterwards

// --- one of them compiled ---

enum class ProgramKind { fused, accumulate, apply };

struct FittedStep {
  StepGraph built;
  std::shared_ptr<graph::Program> program;
  int64_t recompute = 0;  // ProgramSpec::recompute of the graph
  int64_t peak_bytes = 0; // with the arrays of the trainer that the program does not read
};

// Builds and compiles for the model's engine. With spec.memory: the graph that recomputes fewest values and fits. Fails
// with resource_exhausted when none does, and names the least that one needs; with unimplemented on an engine that
// does not plan its memory. The task is checked before each plan: there may be 25.
FittedStep fitted_step(const ProgramSpec& spec, ProgramKind kind, const Batch& feed,
                       const Task* task = nullptr);

// Everything that a program may read or replace.
struct Operands {
  model::ParamStore& params;
  std::vector<graph::BufferRef>& state; // as ProgramSpec::state
  graph::BufferRef& halted;             // null: 0
  const std::vector<float>& scalars;    // empty: the program takes none
  const std::vector<int32_t>& control;  // requests of this process
  const Feeds& feeds;
};

// What a run computed, read from the output "numbers".
struct StepNumbers {
  double sum = 0, normalizer = 0, grad_norm = 0;
  bool finite = true;
  std::map<std::string, std::pair<double, double>> parts; // sum, count
  std::vector<int32_t> control;                           // requests of all processes
};

class TrainProgram {
public:
  // Builds and compiles; feed: of the shapes it will run with. The task is checked as by fitted_step.
  TrainProgram(const ProgramSpec& spec, ProgramKind kind, const Batch& feed,
               const Task* task = nullptr);

  // Starts one run; returns "numbers", which an engine that runs ahead computes later. Parameters and state are then
  // those after it. The task is checked until an array begins to be written: half an update would be neither the old
  // nor the new weights. Any failure leaves all as it was, but graph::StateLost, which also marks the parameters lost
  // where the program writes them.
  graph::BufferRef run(const Operands& operands, const Task* task) const;
  StepNumbers read(const graph::Buffer& numbers) const; // waits for the run

  int64_t recompute() const { return recompute_; } // as FittedStep
  // Of a run on these feeds, all ranks together: rows that the head did not have to compute are taken off.
  double flops(const Feeds& feeds) const;

private:
  graph::BufferRef feed_array(const Feeds& feeds, size_t index) const;
  bool changes_weights() const { return kind_ != ProgramKind::accumulate; }

  ProgramKind kind_;
  graph::Engine& engine_;
  std::vector<Place> inputs_, outputs_;
  std::vector<std::string> parts_;
  std::shared_ptr<graph::Program> program_;
  int64_t recompute_ = 0;
  std::vector<bool> donated_;          // by input
  std::vector<size_t> donated_params_; // physical index of each
  double head_flops_per_row_ = 0;
  double head_rows_ = 0; // of a feed, used or not
  graph::AxisSet batch_axes_;
};

} // namespace dllm::train
