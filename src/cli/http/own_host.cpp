#include "own_host.h"

#include <algorithm>

namespace dllm::cli {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

std::string name_of_host(std::string_view host) {
  const size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos &&
                        host.find(']', colon) == std::string_view::npos &&
                        host.find_first_not_of("0123456789", colon + 1) == std::string_view::npos;
  std::string name(has_port ? host.substr(0, colon) : host);
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

bool is_own_host(std::string_view host) {
  const std::string name = name_of_host(host);
  return name == "127.0.0.1" || name == "localhost" || name == "[::1]";
}

bool is_named_host(std::string_view host, const std::vector<std::string>& names) {
  const std::string name = name_of_host(host);
  return std::ranges::any_of(
      names, [&](const std::string& one) { return one == "*" || name == name_of_host(one); });
}

} // namespace dllm::cli
