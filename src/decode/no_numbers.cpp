#include "decode/no_numbers.h"

#include "base/error.h"

#include <algorithm>

namespace dllm::decode {

void fail_without_numbers(int64_t position, std::span<const uint8_t> banned, const PassRun* pass) {
  const bool open = banned.empty() || std::ranges::find(banned, uint8_t{0}) != banned.end();
  if (!open) {
    fail_with_hint("let suppress name fewer tokens", Code::failed_precondition,
                   "every token is banned at position {}", position);
  }
  std::string finding;
  if (pass != nullptr) {
    finding = pass->program.find_non_finite(
        program_inputs(pass->program, pass->model, pass->weights, pass->arrays, pass->kept),
        pass->task);
  }
  fail_with_hint("look at the weights: NaN and infinity spread from layer to layer",
                 Code::failed_precondition, "the logits at position {} are not finite{}{}",
                 position, finding.empty() ? "" : ": ", finding);
}

} // namespace dllm::decode
