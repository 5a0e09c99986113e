#pragma once
// Reads variables of the environment.

#include <string>

namespace dllm {

// Returns the value of a variable, or "" if it is not set.
std::string variable(const char* name);
// Returns the value of the first variable that is set and not empty, else `usual`.
std::string first_variable(const char* one, const char* other, const std::string& usual);

} // namespace dllm
