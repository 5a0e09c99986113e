#pragma once
// Range reduction of very large angles (Payne & Hanek 1983). It uses integers, so every machine
// gives the same bits.

#include <bit>
#include <cstdint>

namespace dllm::cpu {

// Returns r in [-pi/4, pi/4] and the quadrant in 0..3 such that |x| = r + (quadrant + 4 n) * pi/2
// for an integer n. REQUIRES: 2^18 <= |x| < infinity.
inline float reduce_angle(float x, int32_t* quadrant) {
  // 2/pi = 0.a2f9836e... in hexadecimal, 256 bits after the point. The largest float needs 127
  // (exponent) + 96 (window) + 24 bits.
  constexpr uint32_t kTwoOverPi[9] = {0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                      0xf534ddc0u, 0xdb629599u, 0x3c439041u,
                                      0xfe5163abu, 0xdebbc561u, 0u};
  const uint32_t bits = std::bit_cast<uint32_t>(x) & 0x7FFFFFFFu;
  const uint64_t mantissa = (bits & 0x7FFFFFu) | 0x800000u;
  const int exponent = static_cast<int>(bits >> 23) - 150; // |x| = mantissa * 2^exponent
  // Bits of 2/pi above 2^(2 - exponent) only add multiples of 4 quadrants. The window has the 96
  // bits after them.
  const int skip = exponent > 2 ? exponent - 2 : 0;
  const int word = skip / 32, shift = skip % 32;
  uint64_t window[3];
  for (int i = 0; i < 3; ++i) {
    const uint64_t pair = uint64_t{kTwoOverPi[word + i]} << 32 | kTwoOverPi[word + i + 1];
    window[i] = pair << shift >> 32;
  }
  // Upper 64 bits of mantissa * window modulo 2^96. The top two bits are the quadrant, and the
  // fraction follows.
  const uint64_t low = mantissa * window[2];
  const uint64_t middle = mantissa * window[1] + (low >> 32);
  const uint64_t high = mantissa * window[0] + (middle >> 32);
  // Small exponents leave the point further left.
  const int missing = exponent < 2 ? 2 - exponent : 0;
  const uint64_t product = high << (32 - missing) | (middle & 0xFFFFFFFFu) >> missing;
  uint32_t whole = static_cast<uint32_t>(product >> 62);
  // A signed number from minus a half to a half.
  int64_t fraction = static_cast<int64_t>(product << 2);
  if (fraction < 0) ++whole;
  *quadrant = static_cast<int32_t>(whole & 3u);
  // pi/2 / 2^64
  constexpr double kScale = 1.5707963267948966 / 18446744073709551616.0;
  return static_cast<float>(static_cast<double>(fraction) * kScale);
}

} // namespace dllm::cpu
