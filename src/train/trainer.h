#pragma once
// Changes a model so that the loss falls: programs that hold model, loss and the update of an
// optimizer in one graph.

#include "base/log.h"
#include "base/options.h"
#include "base/task.h"
#include "model/model.h"
#include "noise/objective.h"
#include "tensor/batch.h"
#include "text/loader.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dllm::train {

// The schema of a trainer, and its numbers as plain data.

const Schema& trainer_schema(); // "trainer"
const Schema& sink_schema();    // "sink"

// The learning rate by number of applied updates.
// constant: warm-up, then flat. linear, cosine: warm-up, then down to the floor at `total`. wsd:
// warm-up, flat to `cooldown_start`, linear to the floor at `total`. inverse_sqrt: warm-up, then as sqrt(warmup / update).
struct LearningRate {
  std::string kind = "constant";
  double floor_share = 0; // min_lr / lr
  int64_t warmup = 0;     // updates
  int64_t total = 0;
  int64_t cooldown_start = 0; // wsd only
  // The references' first update has rate 0 (dllm-jax; nano-dlm); ours has peak /
  // warmup.
  bool starts_at_zero = false;
  // No number of updates is known: all counts above are shares of the clock, in kClockTicks.
  bool by_clock = false;
  static constexpr int64_t kClockTicks = 1'000'000;

  // Factor of the peak rate for the update after `updates` applied ones.
  // clock: share of a budget of minutes that is used, where there is one; the schedule follows
  // whichever is further, and the clock alone when `by_clock`.
  double factor(int64_t updates, double clock = 0) const;
};

// What may change between steps (Trainer::set_f64) and therefore belongs to a checkpoint.
struct Hyper {
  double lr = 0; // peak
  double weight_decay = 0;
  double clip = 0; // 0: off
};

Hyper hyper_of(const Options& options);
// Steps between two events, for options save_every and sync_every. Below 1 a part of the `steps` of the run, rounded up;
// from 1 on whole steps, rounded down; 0: never. Fails with invalid_argument for a part of a run whose steps are not known (0).
int64_t interval_steps(const char* name, double every, int64_t steps);
// Fails with invalid_argument when the schedule lacks its total number of steps.
LearningRate learning_rate_of(const Options& options);

// Where a run takes its batches from: a loader over a dataset, or what a test makes.
// One call at a time.
class BatchSource {
public:
  virtual ~BatchSource() = default;
  virtual std::optional<Batch> next() = 0; // nothing at the end of the data
  virtual int64_t position() const = 0;    // batches taken since the start, over all epochs
  virtual void seek(int64_t position) = 0; // fails with out_of_range past the end
  // A run takes up to `most` batches next: they may be made ahead, until stop_ahead(). next(), position() and seek() go on as
  // without it.
  virtual void start_ahead(int64_t most) { static_cast<void>(most); }
  virtual void stop_ahead() {}
  // Bytes of text for each token, on average; 0: not known.
  virtual double bytes_per_token() const { return 0; }
};

// The loader outlives it.
class LoaderSource final : public BatchSource {
public:
  explicit LoaderSource(text::Loader& loader) : loader_(loader) {}
  std::optional<Batch> next() override { return loader_.try_next(); }
  int64_t position() const override { return loader_.position(); }
  void seek(int64_t position) override { loader_.seek(position); }
  void start_ahead(int64_t most) override { loader_.start_ahead(most); }
  void stop_ahead() override { loader_.stop_ahead(); }
  double bytes_per_token() const override { return loader_.bytes_per_token(); }

private:
  text::Loader& loader_;
};

// Making one sets attention, shift and mask token of the model as the objective trains it, except what the options of the
// model chose: so it decodes and is saved.
// One call at a time; metric() and describe() from any thread. The one writer of its model while a
// call runs; keeps model and objective alive.
class Trainer {
public:
  // Fails with failed_precondition when the objective needs a mask token and the model has none.
  Trainer(std::shared_ptr<model::Model> model, noise::ObjectiveRef objective,
          const Options& options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // One optimizer step; returns the loss before the update, in nats. A step that fails or is
  // cancelled changes nothing and does not count. The task is checked until the weights begin to
  // change: an update is never cut in two. Fails with aborted when the loss or a gradient is not
  // finite and nonfinite = stop.
  double step(const Batch& batch, const Task* task = nullptr);
  // The halves of a step: gradients and counts are summed, then divided once.
  void accumulate(const Batch& batch, const Task* task = nullptr);
  double apply(const Task* task = nullptr);
  int64_t accumulated() const; // micro-batches since the last update

  // The same without waiting, where the engine runs ahead (elsewhere they wait). At most two steps
  // are unread then: metrics, events and failures come that much later, in order. A step that was
  // not finite under nonfinite = stop fails in a later call, which names it; the steps after it
  // changed no weight either and do not count. Under nonfinite = skip the rate and the optimizer's
  // number of updates count it for the steps after it.
  void start_step(const Batch& batch, const Task* task = nullptr);
  void start_apply(const Task* task = nullptr); // waits for its micro-batches
  void sync() const; // waits for steps in flight and for a background save; the first late failure

  // `steps` more steps, events after each (kinds train_step, checkpoint). Returns true when all
  // were taken, false when the callback or a budget (options tokens, minutes) ended the run. Fails
  // with out_of_range when the data ends first (after saving into option `root`, when one is set),
  // with cancelled when the task was: the step it is in does not happen, its batch goes back to the
  // source, and the steps before it are saved into option `root`, when one is set.
  bool run(BatchSource& source, int64_t steps, const EventFn& fn = nullptr, Task* task = nullptr);
  // Mean loss over at most max_batches, without an update; noise by position in the source alone.
  double eval(BatchSource& source, int64_t max_batches, Task* task = nullptr);

  // step loss grad_norm lr tokens tokens_per_second mfu memory compiles skipped checkpoint_stall_seconds input_wait rank_wait; also the
  // parts of the loss.
  double metric(const std::string& key) const;
  Json describe() const; // metrics, effective options, objective, quirks
  void set_f64(const std::string& key, double value); // lr weight_decay clip
  void add_sink(const std::string& kind, const std::string& target,
                const Options& options); // jsonl, console
  // "live", or "ema": a copy of the moving average. not_found for another role.
  std::shared_ptr<model::Model> model(const std::string& role) const;

  int64_t steps_done() const; // steps in flight included
  const Options& options() const;
  const noise::ObjectiveRef& objective() const;

  // For train/checkpoint only.
  struct State;
  State& state() { return *state_; }
  const State& state() const { return *state_; }

private:
  std::unique_ptr<State> state_;
};

} // namespace dllm::train
