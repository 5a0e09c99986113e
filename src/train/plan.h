#pragma once
// Makes the training step of a config for plans: the fused program that Trainer would compile.

#include "model/plan.h"

namespace dllm::train {

// Returns the job. It reads these options of kind "plan": batch, length, objective, optimizer,
// remat, activations, memory, offload, offload_mib, ema, adapter, dtype. in_files: the formats for
// dtype auto.
model::Job training_job(const std::shared_ptr<graph::Engine>& engine,
                        const model::ModelConfig& config, const Options& options,
                        const model::FormOf& in_files = nullptr);

} // namespace dllm::train
