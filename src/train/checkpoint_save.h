#pragma once
// The start of a save and its end, for runs. Private to src/train.

#include "train/background_save.h"
#include "train/trainer.h"

#include <exception>
#include <memory>
#include <string>

namespace dllm::train {

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

} // namespace dllm::train
