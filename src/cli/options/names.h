#pragma once
// These functions make the error for an unknown name, and list and print names.

#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// Returns `there is no <kind> named "<name>"; did you mean <nearest>?`, without the question when
// no known name is near.
std::string no_such(std::string_view kind, const std::string& name,
                    const std::vector<std::string>& known);
// Returns the printed name of an option, with "-" for "_". "--save-every" and "--save_every" are
// the same option.
std::string dashed(std::string name);
// Returns the full name of the option for a key of a kind: "--decoder.block-length".
std::string option_name(const std::string& kind, const std::string& key);
// Returns a word as it is typed in a shell: in quotes when it has other signs than names have.
std::string shell_word(const std::string& word);
// Returns "a, b, c".
std::string listed(const std::vector<std::string>& names);
// Returns the names in a registry of the library ("policy", "objective", ...).
std::vector<std::string> registry_names(const std::string& registry);

} // namespace dllm::cli
