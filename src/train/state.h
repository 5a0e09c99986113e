#pragma once
// What a trainer holds: places that its events are written to, the write of a checkpoint that goes on in the background, and
// its state. Private to src/train.

#include "base/log.h"
#include "base/options.h"
#include "base/task.h"
#include "model/save.h"
#include "noise/evaluate.h"
#include "train/step_runner.h"
#include "train/trainer.h"

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dllm::train {

// Writes a checkpoint on a thread of its own while training goes on.

enum class SaveState { running, written, failed };

// One write at a time. One thread calls; the write runs on another one and shares nothing with the trainer.
class BackgroundSave {
public:
  using Outcome = std::atomic<SaveState>;

  BackgroundSave() = default;
  // Waits. An error that was not reported before goes to the log.
  ~BackgroundSave();
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  // Waits as wait() does, then starts. what: "checkpoint step_000500", for errors. The thread drops its copy
  // of `write` before the outcome changes.
  std::shared_ptr<const Outcome> start(std::string what, std::function<void()> write);
  // Waits until nothing is being written. Fails with the error of the write, once; with that of the task when it is
  // stopped: the write goes on then.
  void wait(const Task* task = nullptr);
  // The same; returns the error, null: there is none.
  std::exception_ptr take_error(const Task* task = nullptr);
  // The same; the error is kept for the next call.
  void wait_until_idle(const Task* task = nullptr);

private:
  void run(const std::shared_ptr<Outcome>& outcome, std::function<void()> write);

  std::mutex mutex_;
  std::condition_variable ended_;
  bool running_ = false;     // guarded by mutex_
  std::exception_ptr error_; // of the last write, not reported yet; guarded by mutex_
  std::string what_;         // of the last write
  std::thread thread_;
  pid_t process_ = 0; // that started the thread: a forked child has none
};

// Places that the events of a trainer are written to.

// How far a training is, steps before this run included.
struct Progress {
  int64_t done = 0;
  int64_t total = 0;  // 0: not known
  double seconds = 0; // since this run began
  int64_t taken = 0;  // steps of this run
  double budget = 0;  // seconds this run may take; 0: any
};

class Sink {
public:
  virtual ~Sink() = default;
  // Fails once when the place takes no more; what is not written is kept and tried again with the
  // next event, without another error.
  virtual void write(const Event& event, const Progress& progress) = 0;
  // The run ended: a progress line is closed. Fails when lines are still kept.
  virtual void finish() {}
  // Training goes on from this step: what was written, or is kept, of later ones did not happen.
  virtual void rewind(int64_t /*step*/) {}
};

// "jsonl" (target: a file) or "console" (standard error). Fails with not_found for another kind.
std::unique_ptr<Sink> make_sink(const std::string& kind, const std::string& target,
                                const Options& options);
// One JSON object a line, appended to a file and written at once.
std::unique_ptr<Sink> make_jsonl_sink(const std::string& path, int64_t every, bool append);
std::unique_ptr<Sink> make_console_sink(int64_t every);

// "step 120 [####....]  24 %  loss 3.214  eta 1:05  12.3k tok/s  lr 2.9e-04": at most `columns`
// wide; what does not fit is left out, the least important first. columns 0: any width, no bar.
std::string progress_line(const Event& event, const Progress& progress, int columns);

struct Trainer::State {
  State(std::shared_ptr<model::Model> model, const noise::ObjectiveRef& objective,
        const Options& options)
      : runner(model, objective, options), evaluator(std::move(model), objective) {}

  StepRunner runner;
  noise::LossRunner evaluator;
  std::vector<std::unique_ptr<Sink>> sinks;
  bool restored = false;    // from a checkpoint
  double stall_seconds = 0; // that training stood still for saves
  CopyPool copies;          // of saves in the background
  BackgroundSave save;      // waits first when this goes
};

// A save that was started.
struct SaveStart {
  int64_t step = 0;
  std::string dir;                                        // where it is, or will be
  std::shared_ptr<const BackgroundSave::Outcome> outcome; // null: it is on disk
  double stall_seconds = 0;
};
// As save_checkpoint.
SaveStart start_save(Trainer& trainer, const BatchSource* source, const std::string& root,
                     const Options& options, Task* task = nullptr);
// Waits for the save before; its error, or null.
std::exception_ptr finish_save(Trainer& trainer);

// --- the arrays of a trainer in a checkpoint: one logical tensor per Hugging Face name and array, so that any physical
// layout can read them ---

// One logical tensor of one array: "first.model.norm.weight".
struct StateTensor {
  std::string name;
  size_t entry = 0; // index into ProgramSpec::state
  size_t piece = 0;
  int64_t layer = 0;
  Shape shape;
  int64_t writer = 0; // the process that writes it
};

// Everything there is to save: arrays of the optimizer, averages where they are kept, sums with `with_sums`.
std::vector<StateTensor> state_tensors(const ProgramSpec& spec, bool with_sums);

// The arrays at one moment. copied: in storage of their own, so that training may go on; keep_shared: those of the
// trainer, until it takes its next step.
struct StateSnapshot {
  std::vector<StateTensor> tensors;
  std::vector<StateEntry> entries;         // as ProgramSpec::state
  std::vector<graph::BufferRef> buffers;   // by entry: keep_shared
  std::vector<std::vector<Tensor>> copies; // by entry: copied; of several processes by layer
  int64_t process = 0, writers = 1;
};
StateSnapshot snapshot_state(const StepRunner& runner, model::SnapshotMode mode,
                             model::WriterShares& shares, const Task* task,
                             CopyPool* pool = nullptr);
// The file of a writer in a checkpoint: "state/rank_003.safetensors".
std::string state_file(int64_t writer);
// Writes the arrays of this process. Uses the snapshot up: the arrays of a name are given back when they are written.
void write_state(StateSnapshot& snapshot, const std::string& path, Task* task);
// layout.json: global shapes; which file has which array.
std::string layout_text(const StateSnapshot& snapshot);

// The arrays of the state files of a checkpoint in the order of ProgramSpec::state, in physical layout; sums are null without
// `with_sums`. Fails with failed_precondition naming a tensor that is missing or has another shape.
std::vector<graph::BufferRef> read_state(const StepRunner& runner, const std::string& checkpoint,
                                         bool with_sums, const Task* task);

} // namespace dllm::train
