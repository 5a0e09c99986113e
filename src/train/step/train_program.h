#pragma once
// A compiled program of a trainer: its runs, and the numbers that they return. Private to
// src/train.

#include "base/task.h"
#include "graph/engine.h"
#include "model/params/param_store.h"
#include "noise/objective_state.h"
#include "train/step/feeds.h"
#include "train/step/programs.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dllm::train {

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
  bool used = false;                                      // as in UpdateDecision
  float scale = 0;                                        // of the gradients
  std::map<std::string, std::pair<double, double>> parts; // sum, count
  noise::Observed observed;
  std::vector<int32_t> control; // requests of all processes

  // Returns the loss.
  double mean() const { return sum / std::max(normalizer, 1.0); }
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
  // parameters lost where the program writes them. A program of offloaded arrays never loses state,
  // but a failure of it leaves the gradients undefined.
  graph::BufferRef run(const Operands& operands, const Task* task) const;
  StepNumbers read(const graph::Buffer& numbers) const; // waits for the run

  int64_t recompute() const { return recompute_; } // as FittedStep::recompute
  // Returns the flops of a run on these feeds, summed over all ranks. Rows that the head need not
  // compute are subtracted.
  double flops(const Feeds& feeds) const;

private:
  graph::BufferRef feed_array(const Feeds& feeds, size_t index) const;

  const bool changes_weights_;
  // Every array that the program writes is scratch, so a failed run has lost nothing.
  const bool is_scratch_;
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
