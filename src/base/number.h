#pragma once
// Numbers in texts, the same in every locale of the host.

#include <optional>
#include <string>
#include <string_view>

namespace dllm {

// A decimal number that is the whole text, "-1.5", "2e-3", with one sign at most; nothing for another text, or one that no
// double holds.
std::optional<double> parse_number(std::string_view text);

std::string memory_text(double bytes); // "640 bytes" "3.2 KiB" "12.0 MiB" "1.5 GiB"

} // namespace dllm
