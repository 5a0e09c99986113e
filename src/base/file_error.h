#pragma once
// What errno says about a path, as an error.

#include "base/error.h"

#include <string>

namespace dllm {

Code errno_code(int number);

// "cannot <verb> <path>: <reason>", with the code that fits errno.
[[noreturn]] void fail_errno(const char* verb, const std::string& path);

}  // namespace dllm
