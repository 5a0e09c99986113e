#pragma once
// Reads and writes numbers as text, independent of the host's locale.

#include <optional>
#include <string>
#include <string_view>

namespace dllm {

// Returns the number that the whole text spells ("-1.5", "2e-3"; at most one sign). Returns nothing
// for any other text and for a number outside the range of double.
std::optional<double> parse_number(std::string_view text);

std::string memory_text(double bytes); // "640 bytes" "3.2 KiB" "12.0 MiB" "1.5 GiB"

} // namespace dllm
