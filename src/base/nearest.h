#pragma once
// Finds the known name that a mistyped name means. The library and the program share this rule.

#include <string>
#include <string_view>
#include <vector>

namespace dllm {

// Returns the known name with the fewest changes, or "" if every name needs changes of more than
// half of the letters of the word. A change inserts, deletes or replaces a letter, or swaps it with
// the next letter.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

} // namespace dllm
