#pragma once
// Numbers in texts, read the same in every locale of the host.

#include <optional>
#include <string_view>

namespace dllm {

// A decimal number that is the whole text, "-1.5", "2e-3", with one sign at most; nothing for another text, or one that no
// double holds.
std::optional<double> parse_number(std::string_view text);

} // namespace dllm
