#pragma once
// A training run on disk: model in HF form, the optimizer's arrays under HF names,
// trainer.json, COMMIT last.

#include "base/options.h"
#include "base/task.h"
#include "train/trainer.h"

#include <string>

namespace dllm::train {

const Schema&
checkpoint_schema(); // "checkpoint": keep_last, script_state (JSON text), wait, overwrite

// Saves everything a run needs to go on bit for bit into root/step_<n>; returns that path. source may be null. Fails
// with already_exists when this step is saved already, unless option overwrite is set or gradients are accumulated. Safe
// to call between any two calls of the trainer, also while gradients are accumulated.
//
// Option wait = false: returns when a copy of everything is made, and writes it on a thread of its own while training
// goes on. One such write at a time: the next save waits for it. Until it ends it holds the copy: 4 bytes for each number
// of the trained weights, the optimizer's arrays, averages and sums (12 a parameter with AdamW); what is written is given
// back early. Where the engine's memory_limit has no room for that, the save waits all the same. The task stops the copy,
// not the write. An error of the write is reported once, by the next save, Trainer::sync, the run that started it, or
// the log when the trainer is destroyed.
std::string save_checkpoint(Trainer& trainer, const BatchSource* source, const std::string& root,
                            const Options& options, Task* task = nullptr);

// Everything is read and checked before anything is changed. Fails with data_loss for a checkpoint
// that is not whole, with failed_precondition naming what differs when it belongs to another model,
// objective or optimizer. Options that only shape the rest of the run (lr, schedule, steps, ...)
// are those of `trainer`; lr, weight_decay and clip changed by set_f64 come back when the options
// they started from are the same.
struct Restored {
  int64_t step = 0;
  std::string script_state; // JSON text, empty when none was saved
};
Restored restore_checkpoint(Trainer& trainer, BatchSource* source, const std::string& dir,
                            Task* task = nullptr);

} // namespace dllm::train
