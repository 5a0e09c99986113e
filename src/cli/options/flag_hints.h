#pragma once
// Writes the hints of the library, which name options, as flags of a command.

#include <functional>
#include <string>
#include <string_view>

namespace dllm::cli {

// Returns the flag of a command that sets a key of the library ("block_length" or
// "model.mask_token"); "" for a word that no flag sets.
using FlagOf = std::function<std::string(std::string_view)>;

// Returns the hint with flags: "set block_length = 32" becomes "set --block-length 32", "the option
// template" becomes "--template". A word without "_" is an option only after "set" or "option",
// before "=", or in a list of options. A hint that has flags already stays as it is.
std::string hint_in_flags(const std::string& hint, const FlagOf& flag_of);

} // namespace dllm::cli
