#pragma once
// Starts and ends a save, for runs. Private to src/train.

#include "train/checkpoint/background_save.h"
#include "train/trainer.h"

#include <exception>
#include <memory>
#include <string>

namespace dllm::train {

// A save that was started.
struct SaveStart {
  int64_t step = 0;
  std::string dir;                                        // the folder of the checkpoint
  std::shared_ptr<const BackgroundSave::Outcome> outcome; // null: it is on disk already
  double stall_seconds = 0;
};
// Starts a save. Fails as save_checkpoint does.
SaveStart start_save(Trainer& trainer, const BatchSource* source, const std::string& root,
                     const Options& options, Task* task = nullptr);
// Waits for the last save and returns its error, or null.
std::exception_ptr finish_save(Trainer& trainer);

} // namespace dllm::train
