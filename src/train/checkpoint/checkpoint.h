#pragma once
// Saves and restores a training run: the model in Hugging Face form, the optimizer's arrays under
// Hugging Face names, trainer.json, and COMMIT last.

#include "base/options.h"
#include "base/task.h"
#include "train/trainer.h"

#include <string>

namespace dllm::train {

// The schema "checkpoint": keep_last, keep_steps, script_state (JSON text), wait, overwrite.
const Schema& checkpoint_schema();

// Saves a run into root/step_<n>, so that it can continue bit for bit, and returns that path.
// `source` may be null. Fails with already_exists when this step is saved already, unless option
// overwrite is set or gradients are accumulated. The call is safe between any two calls of the
// trainer, also while gradients are accumulated.
//
// With option wait = false the call copies everything and returns; a thread writes the copy while
// training continues. One such write runs at a time, and the next save waits for it.
// The copy takes 4 bytes per number of trained weights, optimizer arrays, averages and sums (12
// bytes per parameter with AdamW). Written parts are freed early. Where the engine's memory_limit
// has no room for the copy, the save waits for the write as with wait = true.
// The task stops the copy, not the write. An error of the write is reported once. The next save,
// Trainer::sync or the run that started it reports it, or the log when the trainer is destroyed.
std::string save_checkpoint(Trainer& trainer, const BatchSource* source, const std::string& root,
                            const Options& options, Task* task = nullptr);

// Restores a trainer and its model. Everything is read and checked before anything changes. Fails
// with data_loss for an incomplete checkpoint. Fails with failed_precondition, naming the
// difference, when it belongs to another model, objective or optimizer.
// `trainer` keeps its own options that only shape the rest of the run (lr, schedule, steps, ...).
// Values of lr, weight_decay and clip that set_f64 changed are restored when the options that they
// started from are the same.
struct Restored {
  int64_t step = 0;
  std::string script_state; // JSON text; empty: none was saved
};
Restored restore_checkpoint(Trainer& trainer, BatchSource* source, const std::string& dir,
                            Task* task = nullptr);

} // namespace dllm::train
