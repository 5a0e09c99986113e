#include "cpu/simd/functions.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace dllm::cpu {
namespace {

// Returns log2 of a positive, finite number by 13 terms of the series of atanh around 1. The other
// terms are below 2^-60.
double log2_of(float value) {
  // Subnormal floats are normal doubles.
  const auto bits = std::bit_cast<uint64_t>(static_cast<double>(value));
  auto exponent = static_cast<int64_t>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    ++exponent;
  }
  const double s = (mantissa - 1.0) / (mantissa + 1.0), s2 = s * s;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  constexpr double kTwoOverLn2 = 2.8853900817779268;
  return static_cast<double>(exponent) + kTwoOverLn2 * s * sum;
}

double exp2_of(double x) {
  if (x > 200.0) return HUGE_VAL;
  if (x < -200.0) return 0.0;
  const double whole = std::floor(x + 0.5);
  const double r = (x - whole) * 0.6931471805599453;
  double sum = 1.0;
  for (int k = 14; k >= 1; --k) sum = 1.0 + sum * r / k;
  return sum *
         std::bit_cast<double>(static_cast<uint64_t>(static_cast<int64_t>(whole) + 1023) << 52);
}

bool is_whole(float y) {
  return std::floor(y) == y;
}
bool is_odd(float y) {
  return is_whole(y) && std::fabs(y) < 16777216.0f && (static_cast<int64_t>(y) & 1) != 0;
}

} // namespace

float power(float x, float y) {
  if (y == 0.0f || x == 1.0f) return 1.0f;
  if (x != x || y != y) return NAN;
  const bool negative = std::signbit(x) && is_odd(y);
  const float size = std::fabs(x);
  if (std::isinf(y)) {
    if (size == 1.0f) return 1.0f;
    return (size > 1.0f) == (y > 0.0f) ? HUGE_VALF : 0.0f;
  }
  float result;
  if (size == 0.0f || std::isinf(size)) {
    result = (size == 0.0f) == (y > 0.0f) ? 0.0f : HUGE_VALF;
  } else {
    if (x < 0.0f && !is_whole(y)) return NAN;
    result = static_cast<float>(exp2_of(static_cast<double>(y) * log2_of(size)));
  }
  return negative ? -result : result;
}

} // namespace dllm::cpu
