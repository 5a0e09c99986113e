#pragma once
// Names that a user types: the nearest known one, the error for an unknown one, lists of names.

#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// The known name with the fewest changed letters. "": more than a third of the letters of every
// name differ.
std::string nearest(std::string_view typed, const std::vector<std::string>& known);
// `there is no <kind> named "<name>"; did you mean <nearest>?`, without the question where no name
// is near.
std::string no_such(std::string_view kind, const std::string& name,
                    const std::vector<std::string>& known);
// An option as it is printed: "--save-every" and "--save_every" are the same, keys of options have
// "_".
std::string dashed(std::string name);
// "--decoder.block-length": the full name of the option for a key of a kind.
std::string option_name(const std::string& kind, const std::string& key);
// "a, b, c"
std::string listed(const std::vector<std::string>& names);
// The names of a registry of the library: "policy", "objective", ...
std::vector<std::string> registry_names(const std::string& registry);

} // namespace dllm::cli
