#pragma once
// How failures leave a script: the core's exception type is not visible here, so this folder has its own.

#include "dllm/base.h"

#include <stdexcept>
#include <string>

namespace dllm::lua {

class ScriptError : public std::runtime_error {
 public:
  ScriptError(dllm_status status, const std::string& message, std::string hint = {})
      : std::runtime_error(message), status_(status), hint_(std::move(hint)) {}
  dllm_status status() const { return status_; }
  const std::string& hint() const { return hint_; }

 private:
  dllm_status status_;
  std::string hint_;
};

}  // namespace dllm::lua
