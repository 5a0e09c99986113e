#pragma once
// Patterns of integers in a range, as JSON writes them.

#include <cstdint>
#include <string>

namespace dllm::generate {

// Returns a pattern that matches the integers from `low` to `high`, and no other text. Both have at
// most 18 digits, and low <= high.
std::string pattern_of_range(int64_t low, int64_t high);

} // namespace dllm::generate
