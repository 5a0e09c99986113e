#pragma once
// What errno says about a path, as an error.

#include <string>

namespace dllm {

// "cannot <verb> <path>: <reason>", with the code that fits errno.
[[noreturn]] void fail_errno(const char* verb, const std::string& path);

}  // namespace dllm
