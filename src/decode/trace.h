#pragma once
// What a step did, as one line of JSON: what live views, replays and tests read.

#include "decode/slot.h"

#include <cstdint>
#include <span>
#include <string>

namespace dllm::decode {

// {"slot", "block", "step", "nfe", "open", "decided": [positions], "ids", "states", "confidence"}
// and a line break.
std::string trace_line(const Slot& slot, std::span<const int64_t> decided);

} // namespace dllm::decode
