#pragma once
// Changes a model so that the loss falls: programs that hold model, loss and the update of an
// optimizer in one graph.

#include "base/event.h"
#include "base/options.h"
#include "base/task.h"
#include "model/model.h"
#include "noise/objective.h"
#include "train/batch_source.h"
#include "train/options.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dllm::train {

// Making one lets the model see as the objective trains it (attention, shift, mask token), but for
// what the options of the model chose: so it decodes and is saved.
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

  // One optimizer step; answers the loss before the update, in nats. A step that fails or is
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
  // not finite under nonfinite = stop fails in a later call, which names it; the steps behind it
  // changed no weight either and do not count. Under nonfinite = skip the rate and the optimizer's
  // number of updates, for the steps behind it, took it for an update.
  void start_step(const Batch& batch, const Task* task = nullptr);
  void start_apply(const Task* task = nullptr); // waits for its micro-batches
  void sync() const; // waits for steps in flight and for a background save; the first late failure

  // `steps` more steps, events after each (kinds train_step, checkpoint). Answers true when all
  // were taken, false when the callback or a budget (options tokens, minutes) ended the run. Fails
  // with out_of_range when the data ends first (after saving into option `root`, when one is set),
  // with cancelled when the task was: the step it is in does not happen, its batch goes back to the
  // source, and the steps before it are saved into option `root`, when one is set.
  bool run(BatchSource& source, int64_t steps, const EventFn& fn = nullptr, Task* task = nullptr);
  // Mean loss over at most max_batches, without an update; noise by position in the source alone.
  double eval(BatchSource& source, int64_t max_batches, Task* task = nullptr);

  // step loss grad_norm lr tokens tokens_per_second mfu memory compiles skipped checkpoint_stall_seconds; also the parts
  // of the loss.
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
