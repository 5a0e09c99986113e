#pragma once
// What a trainer holds between calls. Private to src/train.

#include "graph/engine.h"
#include "noise/evaluate.h"
#include "train/options.h"
#include "train/programs.h"
#include "train/sink.h"
#include "train/trainer.h"

#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace dllm::train {

// Arrays of one trained parameter, in its physical layout. sums: null until something is
// accumulated.
struct Slot {
  size_t physical = 0;
  graph::BufferRef first, second, ema, sums;
};

struct Counters {
  int64_t step = 0;    // optimizer steps, those left out included
  int64_t updates = 0; // steps that changed the weights
  int64_t skipped = 0; // steps left out because something was not finite
  int64_t tokens = 0;
  int64_t batches = 0; // prepared batches, micro-batches included
};

// Micro-batches since the last update. The numbers of the gradient are in Slot::sums.
struct Accumulated {
  int64_t batches = 0;
  int64_t rows = 0; // global rows so far: the next micro-batch's noise starts there
  int64_t drawn = 0; // micro-batches whose noise was drawn here
  int64_t tokens = 0;
  double sum = 0; // of the losses, unnormalized
  double normalizer = 0;
  double mean_sum = 0; // of the means of the micro-batches (compat)
  double seconds = 0, flops = 0;
  std::map<std::string, std::pair<double, double>> parts; // sum, count
};

// A compiled program and where its inputs and outputs live.
class Bound;

enum class ProgramKind { fused, accumulate, apply };

// What execute answers: the numbers are not read yet.
struct Launched {
  graph::BufferRef numbers;        // enum Number
  std::shared_ptr<const Bound> by; // knows the parts
  double flops = 0;                // rows of the head that were not used taken off
};

// A step or micro-batch that was started and is not read yet.
struct InFlight {
  ProgramKind kind = ProgramKind::fused;
  Launched run;
  Counters before, after; // of the trainer, as if the step were finite
  Accumulated sums;       // apply: of its micro-batches
  double lr = 0;
  int64_t tokens = 0;
  std::chrono::steady_clock::time_point start;
  double share = 1; // of the seconds until it is read: others were in flight when it started
};

struct Trainer::State {
  State(std::shared_ptr<model::Model> model, noise::ObjectiveRef objective, const Options& options);

  std::shared_ptr<model::Model> model;
  noise::ObjectiveRef objective;
  Options options;
  LearningRate rate;
  Hyper hyper;
  ProgramSpec spec;
  std::vector<Slot> slots; // written while a step has its turn in the ParamStore
  bool restored = false;   // from a checkpoint
  double clock = 0;        // share of the running run's minutes that is gone
  Counters counters;       // steps in flight included, as if all were finite
  Accumulated accumulated; // batches, rows and tokens of all; the rest of those that were read
  std::string lost;        // why the state cannot be used any more, or ""

  std::list<std::shared_ptr<Bound>> programs; // most recently used first
  std::deque<InFlight> in_flight;             // oldest first
  graph::BufferRef halted; // f32 scalar of the last update: was one not finite?; null: none was
  double last_loss = 0;
  std::function<void()> on_step; // called after the numbers of a step were published
  noise::LossRunner evaluator;
  std::vector<std::unique_ptr<Sink>> sinks;
  std::vector<int32_t> control; // wishes of this process for the next step
  std::vector<int32_t> agreed;  // wishes of all after the last step that was read

  // Of metrics, and of hyper where it is written or another thread reads it.
  mutable std::mutex metrics_mutex;
  std::map<std::string, double> metrics;

  graph::Engine& engine() const { return model->engine(); }
  bool mean_of_means() const { return spec.mean_of_means; }
  void check_usable() const; // fails with aborted
  void allocate_sums();      // zeros, when there are none
};

// Results of one run of a program.
struct StepNumbers {
  double sum = 0, normalizer = 0, grad_norm = 0;
  bool finite = true;
  std::map<std::string, std::pair<double, double>> parts; // sum, count
};

// Runs the program of this kind (compiled when the feed has a new shape) on the trainer's arrays,
// which are then those after the step. A run that fails leaves them as they were, or sets `lost`.
Launched execute(Trainer::State& state, ProgramKind kind, const Batch& feed,
                 const std::vector<float>& scalars, const Task* task);
// Waits for the run. words: control, as all ranks agreed.
StepNumbers read_numbers(const Launched& run, std::vector<int32_t>& words);

} // namespace dllm::train
