#pragma once
// Made-up numbers between -0.5 and 0.5, and bits of rows compared.

#include <cstdint>
#include <cstring>
#include <vector>

namespace dllm::cpu {

inline std::vector<float> uniform_numbers(int64_t count, uint32_t state) {
  std::vector<float> made(static_cast<size_t>(count));
  for (float& x : made) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
  }
  return made;
}

inline bool same_row_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

} // namespace dllm::cpu
