#pragma once
// One function per sampler of torch/samplers; the table from the reference's class name is in
// samplers.cpp.

#include "handlers/decoding/sampler_case.h"

namespace dllm::parity {

void run_bd3lm(Case& c, const Json& entry);     // BD3LMSampler: bd3lm_sampler.cpp
void run_dream(Case& c, const Json& entry);     // DreamSampler: dream_sampler.cpp
void run_llada2(Case& c, const Json& entry);    // LLaDA2Sampler: llada2_sampler.cpp
void run_llada21(Case& c, const Json& entry);   // LLaDA21Sampler: llada2_sampler.cpp
void run_mdlm(Case& c, const Json& entry);      // MDLMSampler: mdlm_sampler.cpp
void run_fast_dllm(Case& c, const Json& entry); // FastdLLM*Sampler: fast_dllm_samplers.cpp
void run_nano(Case& c, const Json& entry);      // ddim, ancestral: nano_samplers.cpp
void run_nano_step(Case& c, const Json& entry); // one step of ddim, logits given: nano_step.cpp

} // namespace dllm::parity
