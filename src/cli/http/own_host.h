#pragma once
// Which values of a header Host name this machine.

#include <cstdint>
#include <string>

namespace dllm::cli {

// Returns true for "127.0.0.1:PORT", "localhost:PORT" and "[::1]:PORT", and without a port where it
// is 80.
bool is_own_host(const std::string& host, int64_t port);

} // namespace dllm::cli
