#pragma once
// These functions find the nearest known name for a typed name, make the error for an unknown name,
// and list names.

#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// Returns the known name with the fewest changed letters, or "" when more than a third of the
// letters of every name differ.
std::string nearest(std::string_view typed, const std::vector<std::string>& known);
// Returns `there is no <kind> named "<name>"; did you mean <nearest>?`, without the question when
// nearest() returns "".
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
