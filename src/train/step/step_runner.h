#pragma once
// Starts training steps and reads their results. It holds everything that a run changes except the
// weights: the optimizer's arrays, counters, summed gradients, steps in flight. Private to
// src/train.

#include "graph/engine.h"
#include "noise/objective.h"
#include "runtime/programs.h"
#include "train/step/feeds.h"
#include "train/step/train_program.h"
#include "train/trainer.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace dllm::train {

// The metrics of a trainer. Any thread may read them.
class Metrics {
public:
  // Sets step loss grad_norm lr tokens tokens_per_second mfu memory compiles skipped
  // checkpoint_stall_seconds input_wait rank_wait to 0.
  Metrics();
  // Sets these values in one step. Other values stay.
  void set(const std::map<std::string, double>& values);
  std::map<std::string, double> all() const;
  double at(const std::string& key) const; // not_found with the nearest key

private:
  mutable std::mutex mutex_;
  std::map<std::string, double> values_;
};

struct Counters {
  int64_t step = 0;    // optimizer steps, with those that were left out
  int64_t updates = 0; // steps that changed the weights
  int64_t skipped = 0; // steps that were left out because a number was not finite
  int64_t tokens = 0;
  int64_t batches = 0; // prepared batches, with micro-batches
};

// Micro-batches since the last update. Their summed gradients are the state arrays of use sum.
struct Accumulated {
  int64_t batches = 0;
  int64_t rows = 0;  // global rows so far: the noise of the next micro-batch starts there
  int64_t drawn = 0; // micro-batches whose noise was drawn by this runner
  int64_t tokens = 0;
  double sum = 0; // sum of the losses, unnormalized
  double normalizer = 0;
  double mean_sum = 0; // sum of the means of the micro-batches (option compat)
  double seconds = 0, flops = 0;
  std::map<std::string, std::pair<double, double>> parts; // sum, count
  noise::Observed observed;
};

// The values that a restore sets.
struct RestoredState {
  std::vector<std::pair<size_t, graph::BufferRef>> weights; // by physical index
  std::vector<graph::BufferRef> arrays;                     // in the order of ProgramSpec::state
  noise::StateArrays objective;                             // Objective::first_state()
  Counters counters;
  Accumulated accumulated;
  Hyper hyper;
};

// On an engine that runs ahead the host prepares the next batch while the device works. The results
// of a step are then read up to two steps late, on other engines at once. They are also read at
// once for an objective that keeps arrays, since the next step depends on them. One call at a time;
// metrics(), hyper() and averages() at any time.
class StepRunner {
public:
  // Prepares the model for training (programs.h). When that fails, the model is unchanged.
  StepRunner(std::shared_ptr<model::Model> model, noise::ObjectiveRef objective,
             const Options& options);
  ~StepRunner();
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  // Start a step or one of its halves. The counters then include it. A failure is one of
  // Trainer::step, now or when the results are read.
  void start_step(const Batch& batch, const Task* task);
  void start_accumulate(const Batch& batch, const Task* task);
  void start_apply(const Task* task);
  // Reads every step in flight, oldest first. Under nonfinite = stop it fails with aborted at the
  // first step that was not finite. This step and all later ones are then undone. When the device
  // failed, the state is lost.
  void read_all();

  // Sets a function that is called after the metrics of a step were set.
  void on_read(std::function<void()> call) { on_read_ = std::move(call); }
  double last_loss() const { return last_loss_; }

  const std::shared_ptr<model::Model>& model() const { return model_; }
  const noise::ObjectiveRef& objective() const { return objective_; }
  const Options& options() const { return options_; }
  const LearningRate& rate() const { return rate_; }
  const ProgramSpec& spec() const { return spec_; }
  graph::Engine& engine() const { return model_->engine(); }

  // Counts steps in flight as if all were finite.
  const Counters& counters() const { return counters_; }
  // `batches`, `rows` and `tokens` count all started micro-batches; the other fields only finished
  // ones.
  const Accumulated& accumulated() const { return accumulated_; }
  Metrics& metrics() { return metrics_; }
  const Metrics& metrics() const { return metrics_; }
  Hyper hyper() const;
  // Returns the number of values of a layer that the program of the last step recomputes to fit
  // option memory. Any thread may call it.
  int64_t recomputed() const { return recomputed_; }
  void set_hyper(double Hyper::*member, double value);
  // Adds seconds that the host waited for a batch of the next step.
  void add_input_wait(double seconds) { input_wait_ += seconds; }
  // Sets the used share of the minutes of the run, which the schedule follows.
  void set_clock(double share) { clock_ = share; }

  // Control words: this process's requests for the next step, and the requests of all processes as
  // of the last step that was read. All processes act on the latter, so they act after the same
  // step.
  void request(Control what, int32_t value) { own_requests_[what] = value; }
  int32_t requested_here(Control what) const { return own_requests_[what]; }
  int32_t requested(Control what) const { return all_requests_[what]; }
  void clear_requested() { all_requests_.assign(kControlCount, 0); }
  void clear_requests() { own_requests_.assign(kControlCount, 0); }

  // Returns the arrays in the order of ProgramSpec::state. Sums are null until something is
  // accumulated. Not while a step is started.
  const std::vector<graph::BufferRef>& arrays() const { return arrays_; }
  // Returns the arrays that the objective keeps. Not while a step is started.
  const noise::StateArrays& objective_state() const { return objective_state_; }
  // Returns the moving averages of trained parameters by physical index, all of one step. Null for
  // other parameters.
  std::vector<graph::BufferRef> averages() const;
  bool is_lost() const { return !lost_.empty(); }
  // Fails with failed_precondition when the model's list of parameters changed after the trainer
  // was made.
  void check_list() const;
  // Fails as check_list(), and with aborted when the state was lost.
  void check_usable() const;

  // Sets the state and drops every step in flight. Does not fail.
  void restore(RestoredState state);

private:
  // A step or micro-batch that was started and not read yet.
  struct InFlight {
    ProgramKind kind = ProgramKind::fused;
    std::shared_ptr<const TrainProgram> program;
    graph::BufferRef numbers;
    double flops = 0;
    Counters before, after; // of the runner, as if the step were finite
    Accumulated sums;       // for apply: of its micro-batches
    double lr = 0;
    int64_t tokens = 0;
    double input_wait = 0, rank_wait = 0; // seconds
    std::chrono::steady_clock::time_point start;
    // Share of the seconds until it is read, because other steps were in flight at its start.
    double share = 1;
  };
  struct Finished;

  InFlight begin(ProgramKind kind) const;
  void launch(InFlight& step, const Feeds& feeds, const std::vector<float>& scalars,
              const Task* task);
  void push(InFlight step);
  void wait_where_needed();
  void make_room();
  void read_oldest();
  StepNumbers read_numbers();
  Finished finished(const InFlight& step, const StepNumbers& numbers, double seconds) const;
  void publish(const InFlight& step, const Finished& done);
  [[noreturn]] void halt(const InFlight& step, const Finished& done);
  void take_observed(const noise::Observed& observed);
  void add_micro_batch(const StepNumbers& numbers, double seconds, double flops);
  Feeds feeds_of(const Batch& batch, bool is_part) const;
  void make_arrays();
  graph::BufferRef empty_array(const model::ParamSpec& layout) const; // filled with zeros
  std::vector<float> scalars() const;
  void allocate_sums();
  void clear_sums();

  std::shared_ptr<model::Model> model_;
  noise::ObjectiveRef objective_;
  Options options_;
  LearningRate rate_;
  Hyper hyper_; // guarded by hyper_mutex_
  mutable std::mutex hyper_mutex_;
  ProgramSpec spec_;
  int64_t list_version_ = 0; // of the model's parameters, which spec_ numbers
  noise::StateArrays objective_state_;
  std::vector<graph::BufferRef> arrays_; // written while a step has its turn in the ParamStore
  runtime::ProgramCache<std::pair<ProgramKind, std::string>, std::shared_ptr<const TrainProgram>>
      programs_;
  std::deque<InFlight> in_flight_; // oldest first
  // f32 scalar of the last update: not 0 when an update was not finite. Null: 0.
  graph::BufferRef halted_;
  Counters counters_;
  Accumulated accumulated_;
  std::vector<int32_t> own_requests_, all_requests_;
  double clock_ = 0;
  double input_wait_ = 0; // for batches of the next step
  double last_loss_ = 0;
  std::atomic<int64_t> recomputed_{0};
  std::string lost_; // why the state cannot be used any more; "": it can be used
  std::function<void()> on_read_;
  Metrics metrics_;
};

} // namespace dllm::train
