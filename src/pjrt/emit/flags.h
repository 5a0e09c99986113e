#pragma once
// What a platform's compiler must be told so that emitted text means what it says.

#include "pjrt/compile_options.h"

#include <string_view>

namespace dllm::pjrt {

// For CompileOptions::flags. platform: Client::platform_name(). XLA's CPU compiler drops NaN in
// minimum and maximum unless it is told not to.
inline std::vector<std::pair<std::string, FlagValue>> needed_flags(std::string_view platform) {
  if (platform == "cpu") return {{"xla_cpu_enable_fast_min_max", FlagValue(false)}};
  return {};
}

} // namespace dllm::pjrt
