#pragma once
// The name that was probably meant.

#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// The known name with the fewest changed letters; "" when none is near: more than a third of the letters differ.
std::string nearest(std::string_view typed, const std::vector<std::string>& known);
// "a, b, c"
std::string listed(const std::vector<std::string>& names);
// The names of a registry of the library: "policy", "objective", ...
std::vector<std::string> registry_names(const std::string& registry);

}  // namespace dllm::cli
