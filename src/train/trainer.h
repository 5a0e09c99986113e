#pragma once
// Trains a model. Each program of a trainer holds the model, the loss and the update of an
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

// The schemas of a trainer, and its numbers as plain data.

const Schema& trainer_schema(); // "trainer"
const Schema& sink_schema();    // "sink"

// The learning rate by number of applied updates. constant: warm-up, then flat. linear, cosine:
// warm-up, then down to the floor at `total`. wsd: warm-up, flat to `cooldown_start`, then linear
// to the floor at `total`. inverse_sqrt: warm-up, then as sqrt(warmup / update).
struct LearningRate {
  std::string kind = "constant";
  double floor_share = 0; // min_lr / lr
  int64_t warmup = 0;     // updates
  int64_t total = 0;
  int64_t cooldown_start = 0; // for wsd
  // true: the first update has rate 0, as in dllm-jax and nano-dlm. false: it has peak / warmup.
  bool starts_at_zero = false;
  // true: the number of updates is unknown, and all counts above are shares of the clock in
  // kClockTicks.
  bool by_clock = false;
  static constexpr int64_t kClockTicks = 1'000'000;

  // Returns the factor of the peak rate for the update after `updates` applied ones. `clock` is the
  // used share of a budget of minutes, if there is one. The schedule follows the larger of the two
  // shares, and the clock alone with `by_clock`.
  double factor(int64_t updates, double clock = 0) const;
};

// The numbers that may change between steps (Trainer::set_f64). A checkpoint saves them.
struct Hyper {
  double lr = 0; // peak
  double weight_decay = 0;
  double clip = 0; // 0: off
};

Hyper hyper_of(const Options& options);
// Returns the steps between two events, for options save_every and sync_every. A value below 1 is a
// part of the `steps` of the run, rounded up. A value from 1 on is a number of steps, rounded down.
// 0 means never. Fails with invalid_argument for a part of a run whose steps are unknown (0).
int64_t interval_steps(const char* name, double every, int64_t steps);
// Fails with invalid_argument when the schedule needs a total number of steps and has none.
LearningRate learning_rate_of(const Options& options);

// The source of a run's batches: a loader over a dataset, or a source of a test. One call at a
// time.
class BatchSource {
public:
  virtual ~BatchSource() = default;
  virtual std::optional<Batch> next() = 0; // nothing: the data has ended
  virtual int64_t position() const = 0;    // batches taken since the start, over all epochs
  virtual void seek(int64_t position) = 0; // fails with out_of_range past the end
  // Allows the source to make up to `most` batches ahead, until stop_ahead(). The results of
  // next(), position() and seek() do not change.
  virtual void start_ahead(int64_t most) { static_cast<void>(most); }
  virtual void stop_ahead() {}
  // Returns the mean number of bytes of text per token; 0: unknown.
  virtual double bytes_per_token() const { return 0; }
};

// Reads from a loader, which must outlive the source.
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

// Trains a model with an objective. The constructor sets attention, shift and mask token of the
// model as the objective needs them, except settings that the model's options chose. So the model
// decodes and is saved as it was trained.
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
  int64_t accumulated() const; // micro-batches since the last update

  // Start a step or an update without waiting, where the engine runs ahead; on other engines they
  // wait. At most two steps are then unread, and metrics, events and failures come late but in
  // order.
  // Under nonfinite = stop a step that was not finite fails in a later call, which names it. The
  // steps after it changed no weights and do not count. Under nonfinite = skip the learning rate
  // and the optimizer's number of updates count it for the steps after it.
  void start_step(const Batch& batch, const Task* task = nullptr);
  void start_apply(const Task* task = nullptr); // waits for its micro-batches
  // Waits for steps in flight and for a background save. Fails with the first late failure.
  void sync() const;

  // Takes `steps` more steps and sends events after each (kinds train_step, checkpoint). Returns
  // true when all were taken, and false when the callback or a budget (options tokens, minutes)
  // ended the run.
  // Fails with out_of_range when the data ends first, after a save into option `root` if it is set.
  // Fails with cancelled when the task was cancelled. The current step is then undone, its batch
  // goes back to the source, and the earlier steps are saved into option `root` if it is set.
  bool run(BatchSource& source, int64_t steps, const EventFn& fn = nullptr, Task* task = nullptr);
  // Returns the mean loss over at most max_batches, without an update. The noise depends on the
  // position in the source alone.
  double eval(BatchSource& source, int64_t max_batches, Task* task = nullptr);

  // Returns a metric: step loss grad_norm lr tokens tokens_per_second mfu memory compiles skipped
  // checkpoint_stall_seconds input_wait rank_wait, or a part of the loss.
  double metric(const std::string& key) const;
  Json describe() const; // metrics, effective options, objective, quirks
  void set_f64(const std::string& key, double value); // keys: lr weight_decay clip
  // Adds a sink of kind jsonl or console.
  void add_sink(const std::string& kind, const std::string& target, const Options& options);
  // Returns the model for "live", and for "ema" a copy with the moving average. Fails with
  // not_found for another role.
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
