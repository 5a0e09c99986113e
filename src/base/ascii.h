#pragma once
// Letters of ASCII, whatever the locale is.

#include <algorithm>
#include <string>

namespace dllm {

constexpr char lower_case(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Returns the text with small letters for A to Z. Other bytes stay.
inline std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return lower_case(c); });
  return text;
}

} // namespace dllm
