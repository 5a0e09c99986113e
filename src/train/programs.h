#pragma once
// The three programs of a trainer, as graphs: the fused step, and its halves accumulate and apply.

#include "graph/engine.h"
#include "model/builder.h"
#include "noise/objective.h"
#include "train/optimizer.h"

#include <memory>
#include <string>
#include <vector>

namespace dllm::train {

// What does not change between the programs of one trainer.
struct ProgramSpec {
  const model::Model* model = nullptr;
  const noise::Objective* objective = nullptr;
  std::vector<size_t> trained; // indices into ParamStore::physical(), growing
  std::vector<bool> decay;     // per trained parameter
  bool ema = false;
  bool remat = false;
  bool halts = false; // an update that is not finite leaves out all that follow
  // compat (spec-dllm-jax 5.1, spec-nano-dlm 7): each micro-batch is divided by its own count.
  bool mean_of_means = false;
};

// Options of kind "trainer". Fails with invalid_argument when nothing would be trained.
ProgramSpec program_spec(const model::Model& model, const noise::Objective& objective,
                         const Options& options);

// Words of input and output "control" i32(kControlCount): wishes of any rank, known to all after
// the same step.
enum Control { kStop, kCheckpoint, kError, kStep, kControlCount };

// What a step tells, in its one output "numbers" f32(kNumberCount + 2 * parts): one trip to the
// device reads it all. Of each part sum and count stand behind the others. Words of control are
// exact below 2^24. What a program does not know is 0.
enum Number {
  kNumberSum,
  kNumberNormalizer,
  kNumberGradNorm,
  kNumberFinite, // 1 or 0; 0 as well for an update left out because an earlier one was not finite
  kNumberControl,
  kNumberCount = kNumberControl + kControlCount
};

struct StepGraph {
  std::shared_ptr<graph::Graph> graph;
  std::vector<std::string> parts; // their names, in the order of "numbers"
};

// Arrays of state are called "<kind>:<physical>" on both sides, kind param first second ema sums;
// the output of such a name takes over its input. All take "control" and answer "numbers"; fused
// and apply take "scalars", and where spec.halts the f32 scalar "halted", which the output of this
// name continues; fused and accumulate take all parameters and "batch:<array>". An update that is
// not finite leaves every array as it was, to the bit.
StepGraph build_fused(const ProgramSpec& spec, const Batch& feed);      // param first second ema
StepGraph build_accumulate(const ProgramSpec& spec, const Batch& feed); // sums
StepGraph build_apply(const ProgramSpec& spec); // param first second ema sums (zero afterwards)

} // namespace dllm::train
