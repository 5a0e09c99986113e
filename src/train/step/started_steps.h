#pragma once
// The steps of a trainer that were started, and their results. Private to src/train.

#include "graph/engine.h"
#include "noise/objective_state.h"
#include "train/step/accumulated.h"
#include "train/step/counters.h"
#include "train/step/train_program.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace dllm::train {

// A step or micro-batch that was started and not read yet.
struct StartedStep {
  ProgramKind kind = ProgramKind::fused;
  std::shared_ptr<const TrainProgram> program;
  graph::BufferRef numbers;
  double flops = 0;
  Counters before, after; // of the trainer, as if the step were finite
  Accumulated sums;       // for apply: of its micro-batches
  double lr = 0;
  int64_t tokens = 0;
  double input_wait = 0, rank_wait = 0; // seconds
  std::chrono::steady_clock::time_point start;
  // Share of the seconds until it is read, because other steps were in flight at its start.
  double share = 1;
};

// A step that was read. Its results include the results of its micro-batches. `numbers` holds the
// results of its last program.
struct FinishedStep {
  StartedStep started;
  StepNumbers numbers;
  double loss = 0, seconds = 0, flops = 0;
  std::map<std::string, std::pair<double, double>> parts; // sum, count
  noise::Observed observed;
};

// The steps in flight, oldest first.
class StartedSteps {
public:
  // Begins a step. It shares the seconds until it is read with all steps in flight.
  StartedStep begin(ProgramKind kind, const Counters& counters, double lr) const;
  void push(StartedStep step) { steps_.push_back(std::move(step)); }
  // Waits for the oldest step and removes it. Removes nothing when the device failed.
  // `mean_of_means`: the loss of an update is the mean over its micro-batches.
  FinishedStep read_oldest(bool mean_of_means);
  void clear() { steps_.clear(); }

  bool is_empty() const { return steps_.empty(); }
  size_t count() const { return steps_.size(); }
  bool changes_weights() const; // one of the steps does

private:
  std::deque<StartedStep> steps_;
};

} // namespace dllm::train
