#pragma once
// A file that the user named, as text.

#include <string>

namespace dllm::cli {

// Fails when it is no regular file: a pipe without a writer hangs, a device never ends.
std::string read_file(const std::string& path);

}  // namespace dllm::cli
