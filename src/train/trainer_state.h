#pragma once
// The state of a trainer in addition to its StepRunner. Private to src/train.

#include "model/model.h"
#include "noise/evaluate.h"
#include "tensor/copy_pool.h"
#include "train/checkpoint/background_save.h"
#include "train/sinks/sink.h"
#include "train/step/step_runner.h"
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
  bool restored = false;    // the trainer was restored from a checkpoint
  double stall_seconds = 0; // seconds that training stood still for saves
  CopyPool copies;          // copies for background saves
  BackgroundSave save;      // last member: its destructor waits for the write first
};

} // namespace dllm::train
