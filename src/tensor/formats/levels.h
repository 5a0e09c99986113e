#pragma once
// Defines the tables of formats whose 4-bit level q is an index into a table of uneven levels.

#include <cmath>
#include <cstdint>

namespace dllm::formats {

// iq4_nl and iq4_xs of ggml.
inline constexpr int8_t kIq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
// The E2M1 floats (a sign, two bits of exponent, one bit of mantissa) times 2.
inline constexpr int8_t kE2m1Doubled[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                            0, -1, -2, -3, -4, -6, -8, -12};

inline int nearest_of(const int8_t (&table)[16], float x) {
  int best = 0;
  for (int q = 1; q < 16; ++q) {
    if (std::abs(x - static_cast<float>(table[q])) < std::abs(x - static_cast<float>(table[best])))
      best = q;
  }
  return best;
}

} // namespace dllm::formats
