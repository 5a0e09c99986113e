#pragma once
// The program of a decoder over a config, for plans: the one that StepProgram or, where the decoder
// would take the steps of a block in one launch, LoopProgram would compile.

#include "model/plan.h"

namespace dllm::decode {

// Options of kind "plan": batch, length, window, dtype, policy, loop. what = decode: a denoising
// step of every row, on the whole canvas or on a window (a block) over a cache; prefill: a pass
// over a prompt of `length` that fills the cache.
model::Job decoding_job(const std::shared_ptr<graph::Engine>& engine,
                        const model::ModelConfig& config, const Options& options);

} // namespace dllm::decode
