#pragma once
// Which values of a header Host a server answers to.

#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// Returns true for an address that only this machine reaches.
bool is_loopback(const std::string& address);
// Returns the name of a header Host in small letters, without its port: "[::1]" of "[::1]:8080".
std::string name_of_host(std::string_view host);
// Returns true for 127.0.0.1, localhost and [::1] with any port. A browser sends these names to
// this machine alone.
bool is_own_host(std::string_view host);
// Returns true for a name of the list, and for every name where the list has "*".
bool is_named_host(std::string_view host, const std::vector<std::string>& names);

} // namespace dllm::cli
