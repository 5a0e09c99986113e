#pragma once
// The graph form of soft parallel decoding.

#include "decode/loop_rule.h"
#include "decode/policies/spd_session.h"

namespace dllm::decode {

LoopOffer spd_loop(const SpdSettings& settings);

} // namespace dllm::decode
