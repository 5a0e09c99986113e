#pragma once
// One file per policy; the table is in ../policy.cpp. A policy with options of its own has a
// function <name>_keys beside its factory.

#include "decode/blockwise.h"

namespace dllm::decode {

std::unique_ptr<Policy> make_ancestral(const PolicySetup& setup);
std::unique_ptr<Policy> make_low_confidence(const PolicySetup& setup);
std::unique_ptr<Policy> make_multi_block(const PolicySetup& setup);
std::vector<OptionSpec> multi_block_keys();
std::unique_ptr<Policy> make_random(const PolicySetup& setup);
std::unique_ptr<Policy> make_spd(const PolicySetup& setup);
std::vector<OptionSpec> spd_keys();

// Everything predicted becomes final.
Choice all_of(std::span<const Prediction> predictions);
// Option block_length where it is set, else the model's own where it has one, else the default.
int64_t block_length_of(const PolicySetup& setup);
// Positions to decide in a step of a planned block; after the plan: all that is left.
int64_t transfer_at(const std::vector<int64_t>& transfer, int64_t step);

} // namespace dllm::decode
