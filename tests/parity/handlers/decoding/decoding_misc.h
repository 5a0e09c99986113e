#pragma once
// One function per kind of case of torch/decoding_misc; the kind is a case's name up to the first
// dot, the table is in decoding_misc.cpp.

#include "handlers/decoding/sampler_case.h"

namespace dllm::parity {

void run_filter(Case& c, const Json& entry);     // filter_cases.cpp
void run_open_dllm(Case& c, const Json& entry);  // open_dllm.cpp
void run_stochastic(Case& c, const Json& entry); // MDLM with recorded draws: decoding_misc.cpp

} // namespace dllm::parity
