#pragma once
// One file per policy; the table is in ../policy.cpp. A policy with options of its own has a
// function <name>_keys beside its factory.

#include "decode/blockwise.h"

namespace dllm::decode {

std::unique_ptr<Policy> make_ancestral(const PolicySetup& setup);
std::unique_ptr<Policy> make_autoregressive(const PolicySetup& setup);
std::vector<OptionSpec> autoregressive_keys();
std::unique_ptr<Policy> make_bd3lm(const PolicySetup& setup);
std::vector<OptionSpec> bd3lm_keys();
std::unique_ptr<Policy> make_dream(const PolicySetup& setup);
std::vector<OptionSpec> dream_keys();
std::unique_ptr<Policy> make_llada2(const PolicySetup& setup);
std::vector<OptionSpec> llada2_keys();
std::unique_ptr<Policy> make_low_confidence(const PolicySetup& setup);
std::unique_ptr<Policy> make_random(const PolicySetup& setup);

// Everything predicted becomes final.
Choice all_of(std::span<const Prediction> predictions);
// Positions to decide in a step of a planned block; after the plan: all that is left.
int64_t transfer_at(const std::vector<int64_t>& transfer, int64_t step);

} // namespace dllm::decode
