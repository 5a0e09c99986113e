#include "own_host.h"

#include <algorithm>

namespace dllm::cli {

bool is_own_host(const std::string& host, int64_t port) {
  std::string lower = host;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const std::string own[] = {"127.0.0.1", "localhost", "[::1]"};
  return std::any_of(std::begin(own), std::end(own), [&](const std::string& name) {
    return lower == name + ":" + std::to_string(port) || (lower == name && port == 80);
  });
}

} // namespace dllm::cli
