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
std::unique_ptr<Policy> make_confidence_remasking(const PolicySetup& setup);
std::vector<OptionSpec> confidence_remasking_keys();
std::unique_ptr<Policy> make_credit(const PolicySetup& setup);
std::vector<OptionSpec> credit_keys();
std::unique_ptr<Policy> make_ddim(const PolicySetup& setup);
std::unique_ptr<Policy> make_dream(const PolicySetup& setup);
std::vector<OptionSpec> dream_keys();
std::unique_ptr<Policy> make_entropy_bound(const PolicySetup& setup);
std::vector<OptionSpec> entropy_bound_keys();
std::unique_ptr<Policy> make_factor(const PolicySetup& setup);
std::vector<OptionSpec> factor_keys();
std::unique_ptr<Policy> make_first_hitting(const PolicySetup& setup);
std::unique_ptr<Policy> make_frechet(const PolicySetup& setup);
std::vector<OptionSpec> frechet_keys();
std::unique_ptr<Policy> make_hierarchy(const PolicySetup& setup);
std::vector<OptionSpec> hierarchy_keys();
std::unique_ptr<Policy> make_llada2(const PolicySetup& setup);
std::vector<OptionSpec> llada2_keys();
std::unique_ptr<Policy> make_low_confidence(const PolicySetup& setup);
std::vector<OptionSpec> low_confidence_keys();
std::unique_ptr<Policy> make_multi_block(const PolicySetup& setup);
std::vector<OptionSpec> multi_block_keys();
std::unique_ptr<Policy> make_random(const PolicySetup& setup);
std::unique_ptr<Policy> make_remdm(const PolicySetup& setup);
std::vector<OptionSpec> remdm_keys();
std::unique_ptr<Policy> make_spd(const PolicySetup& setup);
std::vector<OptionSpec> spd_keys();
std::unique_ptr<Policy> make_threshold(const PolicySetup& setup);
std::vector<OptionSpec> threshold_keys();

// Everything predicted becomes final.
Choice all_of(std::span<const Prediction> predictions);
// Option block_length where it is set, else the model's own where it has one, else the default.
int64_t block_length_of(const PolicySetup& setup);
// Positions to decide in a step of a planned block; after the plan: all that is left.
int64_t transfer_at(const std::vector<int64_t>& transfer, int64_t step);

} // namespace dllm::decode
