#pragma once
// A compiled program of the trainer, and one run of it. Private to src/train.

#include "train/programs.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dllm::train {

enum class ProgramKind { fused, accumulate, apply };

// Everything that a program may read or replace.
struct Operands {
  model::ParamStore& params;
  std::vector<graph::BufferRef>& state;  // as ProgramSpec::state
  graph::BufferRef& halted;              // null: 0
  const std::vector<float>& scalars;     // empty: the program takes none
  const std::vector<int32_t>& control;   // requests of this process
  const Batch& feed;
};

// What a run computed, read from the output "numbers".
struct StepNumbers {
  double sum = 0, normalizer = 0, grad_norm = 0;
  bool finite = true;
  std::map<std::string, std::pair<double, double>> parts;  // sum, count
  std::vector<int32_t> control;                            // requests of all processes
};

class TrainProgram {
 public:
  // Builds and compiles; feed: of the shapes it will run with.
  TrainProgram(const ProgramSpec& spec, ProgramKind kind, const Batch& feed);

  // Starts one run; answers "numbers", which an engine that runs ahead computes later. Parameters and state are then
  // those after it. The task is checked until an array begins to be written: half an update would be neither the old
  // nor the new weights. Any failure leaves all as it was, but graph::StateLost, which also marks the parameters lost
  // where the program writes them.
  graph::BufferRef run(const Operands& operands, const Task* task) const;
  StepNumbers read(const graph::Buffer& numbers) const;  // waits for the run

  // Of a run on this feed: rows that the head did not have to compute are taken off.
  double flops(const Batch& feed) const;

 private:
  bool changes_weights() const { return kind_ != ProgramKind::accumulate; }

  ProgramKind kind_;
  graph::Engine& engine_;
  std::vector<Place> inputs_, outputs_;
  std::vector<std::string> parts_;
  std::shared_ptr<graph::Program> program_;
  std::vector<bool> donated_;           // by input
  std::vector<size_t> donated_params_;  // physical index of each
  double head_flops_per_row_ = 0;
  double head_rows_ = 0;  // of the feed, used or not
};

}  // namespace dllm::train
