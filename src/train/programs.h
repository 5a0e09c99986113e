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
  // compat (spec-dllm-jax 5.1, spec-nano-dlm 7): each micro-batch is divided by its own count.
  bool mean_of_means = false;
};

// Words of input and output "control" i32(kControlCount): wishes of any rank, known to all after
// the same step.
enum Control { kStop, kCheckpoint, kError, kStep, kControlCount };

// Arrays of state are called "<kind>:<physical>" on both sides, kind param first second ema sums;
// the output of such a name takes over its input. All have inputs and outputs "control"; fused and
// apply take "scalars" and answer grad_norm and finite (f32, 1 or 0); fused and accumulate take all
// parameters and "batch:<array>", and answer sum, normalizer, "part:<name>", "part_count:<name>".
// An update that is not finite leaves every array as it was, to the bit.
std::shared_ptr<graph::Graph> build_fused(const ProgramSpec& spec,
                                          const Batch& feed); // param first second ema
std::shared_ptr<graph::Graph> build_accumulate(const ProgramSpec& spec, const Batch& feed); // sums
std::shared_ptr<graph::Graph>
build_apply(const ProgramSpec& spec); // param first second ema sums (zero afterwards)

} // namespace dllm::train
