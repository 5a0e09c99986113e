#pragma once
// Patterns of decimal numbers in a range, as JSON writes them without an exponent.

#include <cstdint>
#include <optional>
#include <string>

namespace dllm::generate {

// A range of numbers that are counted in units of 10^-places. Both ends are in it.
struct DecimalRange {
  int places = 0; // digits after the point, from 1 to 14
  // In units. Nothing means that the range has no end there.
  std::optional<int64_t> low = std::nullopt, high = std::nullopt;
};

// Returns a pattern that matches the numbers of the range with at most 18 digits before the point
// and `places` after it, and no other text. The number 0 has no sign. low <= high.
std::string pattern_of_decimals(const DecimalRange& range);

} // namespace dllm::generate
