#pragma once
// One function per sampler of torch/samplers; the table from the reference's class name is in
// samplers.cpp.

#include "sampler_case.h"

namespace dllm::parity {

void run_fast_dllm(Case& c, const Json& entry); // FastdLLM*Sampler: fast_dllm_samplers.cpp
void run_nano(Case& c, const Json& entry);      // ddim, ancestral: nano_samplers.cpp
void run_mdlm(Case& c, const Json& entry); // MDLMSampler: mdlm_sampler.cpp

} // namespace dllm::parity
