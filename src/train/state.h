#pragma once
// What a trainer holds. Private to src/train.

#include "model/save.h"
#include "noise/evaluate.h"
#include "train/background_save.h"
#include "train/sink.h"
#include "train/step_runner.h"
#include "train/trainer.h"

#include <exception>
#include <memory>
#include <string>
#include <vector>

namespace dllm::train {

struct Trainer::State {
  State(std::shared_ptr<model::Model> model, const noise::ObjectiveRef& objective,
        const Options& options)
      : runner(model, objective, options), evaluator(std::move(model), objective) {}

  StepRunner runner;
  noise::LossRunner evaluator;
  std::vector<std::unique_ptr<Sink>> sinks;
  bool restored = false;    // from a checkpoint
  double stall_seconds = 0; // that training stood still for saves
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
};

// Everything there is to save: arrays of the optimizer, averages where they are kept, sums with `with_sums`.
std::vector<StateTensor> state_tensors(const ProgramSpec& spec, bool with_sums);

// The arrays at one moment. copied: in storage of their own, so that training may go on; keep_shared: those of the
// trainer, until it takes its next step.
struct StateSnapshot {
  std::vector<StateTensor> tensors;
  std::vector<StateEntry> entries;       // as ProgramSpec::state
  std::vector<graph::BufferRef> buffers; // by entry: keep_shared
  std::vector<Tensor> copies;            // by entry: copied
};
StateSnapshot snapshot_state(const StepRunner& runner, model::SnapshotMode mode, const Task* task);
// Writes state/rank_000.safetensors. Uses the snapshot up: the arrays of a name are given back when they are written.
void write_state(StateSnapshot& snapshot, const std::string& path, Task* task);
// layout.json: global shapes; which slice of each a rank holds.
std::string layout_text(const StateSnapshot& snapshot);

// The arrays of a state file in the order of ProgramSpec::state, in physical layout; sums are null without `with_sums`.
// Fails with failed_precondition naming a tensor that is missing or has another shape.
std::vector<graph::BufferRef> read_state(const StepRunner& runner, const std::string& path,
                                         bool with_sums, const Task* task);

} // namespace dllm::train
