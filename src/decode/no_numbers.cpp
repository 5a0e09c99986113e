#include "decode/no_numbers.h"

#include "base/error.h"

#include <algorithm>
#include <exception>
#include <string>

namespace dllm::decode {
namespace {

// The first operation that made NaN or infinity, "" where that cannot be found out: memory may be out,
// and it is the numbers that the step fails for. A task that is over still ends the search.
std::string find_cause(const PassRun& pass) {
  try {
    return pass.program.find_non_finite(
        program_inputs(pass.program, pass.model, pass.weights, pass.arrays, pass.kept), pass.task);
  } catch (const Error& error) {
    if (error.code() == Code::cancelled || error.code() == Code::deadline_exceeded) throw;
  } catch (const std::exception&) {
  }
  return {};
}

} // namespace

void fail_without_numbers(int64_t position, std::span<const uint8_t> banned, const PassRun* pass) {
  const bool open = banned.empty() || std::ranges::find(banned, uint8_t{0}) != banned.end();
  if (!open) {
    fail_with_hint("let suppress name fewer tokens", Code::failed_precondition,
                   "every token is banned at position {}", position);
  }
  const std::string finding = pass != nullptr ? find_cause(*pass) : std::string();
  fail_with_hint("look at the weights: NaN and infinity spread from layer to layer",
                 Code::failed_precondition, "the logits at position {} are not finite{}{}",
                 position, finding.empty() ? "" : ": ", finding);
}

} // namespace dllm::decode
