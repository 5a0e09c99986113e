#pragma once
// The failure of a run that had begun to write over the buffers it was given.

#include "base/error.h"

#include <fmt/core.h>

#include <utility>

namespace dllm::graph {

// Thrown by Program::run, and by Buffer::read of a run that failed late: donated inputs are neither
// what they were nor what they were to become. After any other exception they are as before the run.
class StateLost : public Error {
 public:
  explicit StateLost(Error error) : Error(std::move(error)) {}
  // hint: what else to try, may be empty.
  StateLost(Code code, std::string text, const std::string& why, const std::string& hint = {})
      : Error(code, std::move(text),
              hint.empty() ? fmt::format("state lost: {}", why) : fmt::format("state lost: {}; {}", why, hint)) {}
};

}  // namespace dllm::graph
