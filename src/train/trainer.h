#pragma once
// Trains a model. Each program of a trainer holds the model, the loss and the update of an
// optimizer in one graph.

#include "base/log.h"
#include "base/options.h"
#include "base/task.h"
#include "graph/engine.h"
#include "model/model.h"
#include "noise/objective.h"
#include "runtime/programs.h"
#include "tensor/batch.h"
#include "train/batch_source.h"
#include "train/checkpoint/background_save.h"
#include "train/evaluator.h"
#include "train/learning_rate.h"
#include "train/offload/offloaded_update.h"
#include "train/options.h"
#include "train/replay/replay_buffer.h"
#include "train/sinks/sink.h"
#include "train/step/accumulated.h"
#include "train/step/counters.h"
#include "train/step/feeds.h"
#include "train/step/metrics.h"
#include "train/step/run_exchange.h"
#include "train/step/started_steps.h"
#include "train/step/train_program.h"
#include "train/step/trainer_arrays.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dllm::train {

// The values that a restore sets.
struct RestoredState {
  std::vector<std::pair<size_t, graph::BufferRef>> weights; // by physical index
  std::vector<graph::BufferRef> arrays;                     // in the order of ProgramSpec::state
  noise::StateArrays objective;                             // Objective::first_state()
  std::deque<ReplayedBatch> replayed;                       // ReplayBuffer::kept()
  Counters counters;
  Accumulated accumulated;
  Hyper hyper;
  double run_seconds = 0; // of Trainer::run_seconds()
};

// Trains a model with an objective. The constructor sets attention, shift and mask token of the
// model as the objective needs them, except settings that the model's options chose. So the model
// decodes and is saved as it was trained.
//
// On an engine that runs ahead the host prepares the next batch while the device works. The results
// of a step are then read up to two steps late, on other engines at once. They are also read at
// once for an objective that keeps arrays, since the next step depends on them.
// One call at a time; metric() and describe() may be called from any thread. During a call the
// trainer is the one writer of its model. It keeps model and objective alive.
class Trainer {
public:
  // Fails with failed_precondition when the objective needs a mask token and the model has no room
  // for one.
  Trainer(std::shared_ptr<model::Model> model, noise::ObjectiveRef objective,
          const Options& options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Takes one optimizer step and returns the loss before the update, in nats. A step that fails or
  // is cancelled changes nothing and does not count. The task is checked until the weights begin to
  // change, so an update is always whole. Fails with aborted when the loss or a gradient is not
  // finite and nonfinite = stop.
  double step(const Batch& batch, const Task* task = nullptr);
  // The halves of a step: accumulate() sums gradients and counts, apply() divides once and updates.
  void accumulate(const Batch& batch, const Task* task = nullptr);
  double apply(const Task* task = nullptr);
  int64_t accumulated() const { return accumulated_.batches; } // micro-batches since the update

  // Start a step or an update without waiting, where the engine runs ahead; on other engines they
  // wait. At most two steps are then unread, and metrics, events and failures come late but in
  // order.
  // Under nonfinite = stop a step that was not finite fails in a later call, which names it. The
  // steps after it changed no weights and do not count. Under nonfinite = skip the learning rate
  // and the optimizer's number of updates count it for the steps after it.
  void start_step(const Batch& batch, const Task* task = nullptr);
  void start_apply(const Task* task = nullptr); // waits for its micro-batches
  // Reads every step in flight, oldest first. Under nonfinite = stop it fails with aborted at the
  // first step that was not finite. This step and all later ones are then undone. When the device
  // failed, the state is lost.
  void read_all();
  // Reads all steps, and waits for a background save. Fails with the first late failure.
  void sync();

  // Takes `steps` more steps and sends events after each (kinds train_step, checkpoint). Returns
  // true when all were taken, and false when the callback or a budget (options tokens, minutes)
  // ended the run. A budget counts all runs of the trainer, and those before a restore.
  // Fails with out_of_range when the data ends first, after a save into option `root` if it is set.
  // Fails with cancelled when the task was cancelled. The current step is then undone, its batch
  // goes back to the source, and the earlier steps are saved into option `root` if it is set.
  bool run(BatchSource& source, int64_t steps, const EventFn& fn = nullptr, Task* task = nullptr);
  // Returns the mean loss over at most max_batches, without an update. The noise depends on the
  // position in the source alone.
  double eval(BatchSource& source, int64_t max_batches, Task* task = nullptr);

  // Returns a metric: step loss grad_norm lr tokens tokens_per_second mfu memory compiles skipped
  // checkpoint_stall_seconds input_wait rank_wait run_seconds, or a part of the loss.
  double metric(const std::string& key) const;
  Json describe() const; // metrics, effective options, objective, quirks
  void set_f64(const std::string& key, double value); // keys: lr weight_decay clip
  // Adds a sink of a kind of sinks/sink.h.
  void add_sink(const std::string& kind, const std::string& target, const Options& options);
  // Returns the model for "live", and for "ema" a copy with the moving average. Fails with
  // not_found for another role.
  std::shared_ptr<model::Model> model(const std::string& role) const;

  int64_t steps_done() const { return counters_.step; } // steps in flight included
  const Options& options() const { return options_; }
  const noise::ObjectiveRef& objective() const { return objective_; }

  // The other files of src/train use the functions below. They are called between two steps, unless
  // a comment says more.

  graph::Engine& engine() const { return model_->engine(); }
  const model::Model& trained_model() const { return *model_; }
  const ProgramSpec& spec() const { return spec_; }
  // Counts steps in flight as if all were finite.
  const Counters& counters() const { return counters_; }
  const Accumulated& sums() const { return accumulated_; }
  const std::vector<graph::BufferRef>& arrays() const { return arrays_.all(); }
  const noise::StateArrays& objective_state() const { return objective_state_; }
  const ReplayBuffer& replay() const { return replay_; }
  Hyper hyper() const;                                // at any time
  const Metrics& metrics() const { return metrics_; } // at any time
  const std::vector<std::unique_ptr<Sink>>& sinks() const { return sinks_; }
  RunExchange& exchange() { return exchange_; }
  // Seconds of all runs of this trainer, and of the run whose checkpoint was restored.
  double run_seconds() const { return exchange_.seconds; }
  void set_run_seconds(double seconds);
  SaveSlot& saves() { return saves_; }
  void count_stall(double seconds); // of training that stood still for a save
  bool is_lost() const { return !lost_.empty(); }
  // Fails with failed_precondition when the model's list of parameters changed after the trainer
  // was made.
  void check_list() const;
  // Sets the state, drops every step in flight, and removes later lines from the sinks. Does not
  // fail.
  void restore(RestoredState state);

private:
  void check_usable() const; // fails as check_list(), and with aborted when the state was lost
  void launch(StartedStep& step, const Feeds& feeds, const std::vector<float>& scalars,
              const Task* task);
  void run_program(StartedStep& step, const Feeds& feeds, const std::vector<float>& scalars,
                   const Task* task);
  void run_offloaded(StartedStep& step, const Feeds& feeds, const std::vector<float>& scalars,
                     const Task* task);
  void push(StartedStep step);
  void read_oldest();
  FinishedStep finish_oldest();
  void publish(const FinishedStep& done);
  [[noreturn]] void halt(const FinishedStep& done);
  void take_observed(const noise::Observed& observed);
  NoiseKey noise_key() const;                                // of the next micro-batch
  std::optional<UpdatePart> update_part(bool is_part) const; // of the same
  Feeds feeds_of(const Batch& batch, bool is_part) const;
  void add_replayed(Feeds& feeds) const;
  // Return the learning rate, and the numbers, of the next update, which trains `tokens` tokens.
  double rate(int64_t tokens) const;
  std::vector<float> scalars(int64_t tokens) const;

  std::shared_ptr<model::Model> model_;
  noise::ObjectiveRef objective_;
  Options options_;
  LearningRate rate_;
  Hyper hyper_; // guarded by hyper_mutex_
  mutable std::mutex hyper_mutex_;
  ProgramSpec spec_;
  int64_t most_rows_ = 0;    // of a batch of a step, which a held-out pass keeps to; 0: none yet
  int64_t list_version_ = 0; // of the model's parameters, which spec_ numbers
  TrainerArrays arrays_;
  std::unique_ptr<OffloadedUpdate> offload_; // null: the arrays are in the engine
  noise::StateArrays objective_state_;
  ReplayBuffer replay_;
  runtime::ProgramCache<std::pair<ProgramKind, std::string>, std::shared_ptr<const TrainProgram>>
      programs_;
  StartedSteps started_;
  // f32 scalar of the last update: not 0 when an update was not finite. Null: 0.
  graph::BufferRef halted_;
  Counters counters_;
  Accumulated accumulated_;
  RunExchange exchange_;
  double last_loss_ = 0;
  std::atomic<int64_t> recomputed_{0}; // values of a layer that the last program recomputes
  std::string lost_;                   // why the state cannot be used any more; "": it can be used
  Metrics metrics_;
  Evaluator evaluator_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  bool restored_ = false; // from a checkpoint
  SaveSlot saves_;        // last member: its destructor waits for the write first
};

} // namespace dllm::train
