#pragma once
// One file per policy; the table is in ../policy.cpp.

#include "decode/policy.h"

namespace dllm::decode {

std::unique_ptr<Policy> make_ancestral();
std::unique_ptr<Policy> make_low_confidence();
std::unique_ptr<Policy> make_random();

}  // namespace dllm::decode
