#pragma once
// Training runs of the references, step by step through our trainer.

#include "runner.h"
#include "train/trainer.h"

namespace dllm::parity {

void run_jax_training(Case& c, const Json& entry);
void run_nano_training(Case& c, const Json& entry);

// dllm-jax, BaseTrainer: warm-up of at least one step, none for "constant"; total <= 1 has no
// schedule.
train::LearningRate jax_learning_rate(const std::string& kind, int64_t total, double warmup_ratio,
                                      double peak, double low);
// nano-dlm, src/training.py: none, warmup_cosine, wsd, warmup_constant.
train::LearningRate nano_learning_rate(const Json& train);

} // namespace dllm::parity
