#pragma once
// What a trainer holds. Private to src/train.

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
  State(std::shared_ptr<model::Model> model, const noise::ObjectiveRef& objective, const Options& options)
      : runner(model, objective, options), evaluator(std::move(model), objective) {}

  StepRunner runner;
  noise::LossRunner evaluator;
  std::vector<std::unique_ptr<Sink>> sinks;
  bool restored = false;     // from a checkpoint
  double stall_seconds = 0;  // that training stood still for saves
  BackgroundSave save;       // waits first when this goes
};

// A save that was started.
struct SaveStart {
  int64_t step = 0;
  std::string dir;                                        // where it is, or will be
  std::shared_ptr<const BackgroundSave::Outcome> outcome; // null: it is on disk
  double stall_seconds = 0;
};
// As save_checkpoint.
SaveStart start_save(Trainer& trainer, const BatchSource* source, const std::string& root, const Options& options,
                     Task* task = nullptr);
// Waits for the save before; its error, or null.
std::exception_ptr finish_save(Trainer& trainer);

}  // namespace dllm::train
