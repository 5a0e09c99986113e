#pragma once
// The pass of a decoder over a config, for plans: the program that StepProgram would compile.

#include "model/plan.h"

namespace dllm::decode {

// Options of kind "plan": batch, length, window, dtype, policy. what = decode: a denoising step of
// every row, on the whole canvas or on a window over a cache; prefill: a pass over a prompt of
// `length` that fills the cache.
model::Job decoding_job(const std::shared_ptr<graph::Engine>& engine,
                        const model::ModelConfig& config, const Options& options);

} // namespace dllm::decode
