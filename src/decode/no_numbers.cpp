#include "decode/no_numbers.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::decode {

void fail_not_finite(int64_t position, std::span<const uint8_t> banned, const std::function<std::string()>& cause) {
  const bool open = banned.empty() || std::ranges::find(banned, uint8_t{0}) != banned.end();
  if (!open) {
    fail_with_hint("let suppress name fewer tokens", Code::failed_precondition,
                   "every token is banned at position {}", position);
  }
  const std::string operation = cause ? cause() : std::string();
  fail_with_hint("look at the weights: NaN and infinity spread from layer to layer",
                 Code::failed_precondition, "the logits at position {} are not finite{}{}",
                 position, operation.empty() ? "" : ": ", operation);
}

} // namespace dllm::decode
