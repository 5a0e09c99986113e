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

// NF4 (QLoRA, Dettmers et al. 2023): quantiles of the normal distribution. Numbers of bitsandbytes.
inline constexpr float kNf4Levels[16] = {-1.0f,
                                         -0.6961928009986877f,
                                         -0.5250730514526367f,
                                         -0.39491748809814453f,
                                         -0.28444138169288635f,
                                         -0.18477343022823334f,
                                         -0.09105003625154495f,
                                         0.0f,
                                         0.07958029955625534f,
                                         0.16093020141124725f,
                                         0.24611230194568634f,
                                         0.33791524171829224f,
                                         0.44070982933044434f,
                                         0.5626170039176941f,
                                         0.7229568362236023f,
                                         1.0f};
// FP4 of bitsandbytes: a sign, two bits of exponent and one of mantissa, over their largest number.
inline constexpr float kFp4Levels[16] = {0.0f,
                                         0.0052083334885537624f,
                                         0.6666666865348816f,
                                         1.0f,
                                         0.3333333432674408f,
                                         0.5f,
                                         0.1666666716337204f,
                                         0.25f,
                                         0.0f,
                                         -0.0052083334885537624f,
                                         -0.6666666865348816f,
                                         -1.0f,
                                         -0.3333333432674408f,
                                         -0.5f,
                                         -0.1666666716337204f,
                                         -0.25f};

inline int nearest_of(const int8_t (&table)[16], float x) {
  int best = 0;
  for (int q = 1; q < 16; ++q) {
    if (std::abs(x - static_cast<float>(table[q])) < std::abs(x - static_cast<float>(table[best])))
      best = q;
  }
  return best;
}

} // namespace dllm::formats
