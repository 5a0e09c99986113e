#pragma once
// What a trainer has in addition to its steps. Private to src/train.

#include "model/model.h"
#include "noise/evaluate.h"
#include "tensor/copy_pool.h"
#include "train/background_save.h"
#include "train/sink.h"
#include "train/step_runner.h"
#include "train/trainer.h"

#include <memory>
#include <utility>
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
  CopyPool copies;          // of saves in the background
  BackgroundSave save;      // waits first when this goes
};

} // namespace dllm::train
