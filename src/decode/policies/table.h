#pragma once
// Every policy: a new one is its file in this folder, and its name twice here.

#include "decode/request/policy.h"

#include <memory>
#include <vector>

namespace dllm::decode {

struct PolicyKind {
  const char* name;
  std::unique_ptr<Policy> (*make)(const PolicySetup& setup);
  std::vector<OptionSpec> options; // beyond those of every policy, or in place of one
};

namespace policy_files {

PolicyKind ancestral();
PolicyKind autoregressive();
PolicyKind bd3lm();
PolicyKind confidence_remasking();
PolicyKind credit();
PolicyKind ddim();
PolicyKind dream();
PolicyKind entropy_bound();
PolicyKind factor();
PolicyKind first_hitting();
PolicyKind frechet();
PolicyKind hierarchy();
PolicyKind llada2();
PolicyKind low_confidence();
PolicyKind multi_block();
PolicyKind random();
PolicyKind remdm();
PolicyKind spd();
PolicyKind threshold();

inline constexpr PolicyKind (*kTable[])() = {
    ancestral,   autoregressive,
    bd3lm,       confidence_remasking,
    credit,      ddim,
    dream,       entropy_bound,
    factor,      first_hitting,
    frechet,     hierarchy,
    llada2,      low_confidence,
    multi_block, random,
    remdm,       spd,
    threshold,
};

} // namespace policy_files
} // namespace dllm::decode
