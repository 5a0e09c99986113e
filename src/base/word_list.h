#pragma once
// Joins words for a sentence.

#include <string>
#include <vector>

namespace dllm {

// Returns "a", "a or b", "a, b or c". last: the word before the last one. Returns "" for no words.
std::string word_list(const std::vector<std::string>& words, const std::string& last);

} // namespace dllm
