#pragma once
// Predictions that are none: the logits are not finite, or every token is banned. A step fails then
// and decides nothing.

#include "decode/ask.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace dllm::decode {

// Fails with failed_precondition for the prediction of a position that is not finite. banned (vocab), empty: nothing
// is. cause: names the first operation that made NaN or infinity; "" or an empty function where that is not known.
[[noreturn]] void fail_not_finite(int64_t position, std::span<const uint8_t> banned,
                                  const std::function<std::string()>& cause = {});

} // namespace dllm::decode
