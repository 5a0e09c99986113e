#pragma once
// One run of a trainer. Private to src/train.

#include "base/log.h"
#include "base/task.h"
#include "train/batch_source.h"
#include "train/checkpoint/checkpoint_save.h"
#include "train/trainer.h"

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>

namespace dllm::train {

// A run takes steps, sends events, saves checkpoints, and acts on the requests of all processes.
// The event of a step may be sent after later steps have started. Before a checkpoint and at the
// end all events have been sent.
class Run {
public:
  Run(Trainer& trainer, BatchSource& source, int64_t steps, const EventFn& fn, Task* task);
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  bool go(); // as Trainer::run

private:
  // The request of one process before a step.
  struct StepRequest {
    double clock = 0;  // used share of the budget of minutes
    double tokens = 0; // used share of the budget of tokens
    int32_t ends = 0;
    int32_t is_cancelled = 0;
    int64_t step = 0; // step of the trainer
  };

  bool in_processes() const { return trainer_.engine().processes() > 1; }
  bool saves() const { return !trainer_.options().str("root").empty(); }
  double seconds() const; // of this run
  double seconds_of_all() const { return begin_seconds_ + seconds(); }
  bool wants_sync() const;

  bool goes_on();
  StepRequest agreed(const StepRequest& own);
  void make_requests();
  bool begins_save_part();

  bool take_step();
  bool unless_stopped(const std::function<void(const Batch&)>& work);
  bool finished(const std::function<void()>& work);
  Batch next_batch();
  [[noreturn]] void fail_cancelled();

  void save_last();
  void start_save_of_step(bool wait);
  void look_at_save();

  Progress progress() const;
  void send_step();
  void send(const Event& event);
  void each_sink(const std::function<void(Sink&)>& call);
  void finish_sinks();

  using Clock = std::chrono::steady_clock;
  Trainer& trainer_;
  RunExchange& exchange_;
  BatchSource& source_;
  const int64_t steps_;
  const EventFn& fn_;
  Task* const task_;
  Task* const step_task_;     // of the work of a step; null: the step runs to its end
  int64_t cancelled_by_ = -1; // the first process whose task was cancelled
  const double budget_;       // seconds of all runs; 0: any number
  const Clock::time_point start_ = Clock::now();
  const double begin_seconds_;              // of the runs before this run
  const int64_t begin_;                     // the trainer's step
  const int64_t begin_tokens_;              // of the steps before this run
  int64_t save_every_ = 0, sync_every_ = 0; // steps; 0: never
  double save_part_ = 0;                    // share of a budget between checkpoints; 0: by steps
  int64_t parts_saved_ = -1;                // such shares that were used; -1: not known yet
  int64_t done_ = 0;                        // started steps
  int64_t read_ = 0;                        // steps that were read and whose events were sent
  int64_t saved_step_ = -1;
  std::optional<SaveStart> save_; // a save whose event was not sent yet
  bool stopped_ = false;
  std::exception_ptr sink_error_; // the first error
};

} // namespace dllm::train
