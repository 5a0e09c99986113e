#pragma once
// The schema of a trainer, and its numbers as plain data.

#include "base/options.h"
#include "train/learning_rate.h"

namespace dllm::train {

const Schema& trainer_schema(); // "trainer"
const Schema& sink_schema();    // "sink"

// What may change between steps (Trainer::set_f64) and therefore belongs to a checkpoint.
struct Hyper {
  double lr = 0; // peak
  double weight_decay = 0;
  double clip = 0; // 0: off
};

Hyper hyper_of(const Options& options);
// Fails with invalid_argument when the schedule lacks its total number of steps.
LearningRate learning_rate_of(const Options& options);

} // namespace dllm::train
