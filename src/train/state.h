#pragma once
// What a trainer holds. Private to src/train.

#include "noise/evaluate.h"
#include "train/sink.h"
#include "train/step_runner.h"
#include "train/trainer.h"

#include <memory>
#include <vector>

namespace dllm::train {

struct Trainer::State {
  State(std::shared_ptr<model::Model> model, const noise::ObjectiveRef& objective, const Options& options)
      : runner(model, objective, options), evaluator(std::move(model), objective) {}

  StepRunner runner;
  noise::LossRunner evaluator;
  std::vector<std::unique_ptr<Sink>> sinks;
  bool restored = false;  // from a checkpoint
};

}  // namespace dllm::train
