#include "cpu/kernels/rows/rows.h"

#include "cpu/simd/functions.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dllm::cpu {
namespace {

// Returns the sum of a piece that has no number above -infinity. It is 0 if all elements are
// -infinity, and NaN if one is NaN.
double sum_of_nothing(const float* x, int64_t n) {
  const bool number = std::none_of(x, x + n, [](float value) { return std::isnan(value); });
  return number ? 0.0 : std::numeric_limits<double>::quiet_NaN();
}

} // namespace

float exact_exp(float x) {
  float y;
  rows().exp_sum(&x, 1.0f, 0.0f, 1, &y);
  return y;
}

float exact_log(float x) {
  static const MapFn log = find_function("log");
  float y;
  log(&x, &y, 1);
  return y;
}

void OnlineSoftmax::raise(float candidate, const float* x) {
  if (!(candidate > maximum)) return;
  if (sum > 0) {
    const double shrink = static_cast<double>(exact_exp(maximum - candidate));
    sum *= shrink;
    weighted *= shrink;
  }
  maximum = candidate;
  piece = x;
}

void OnlineSoftmax::add(float* x, int64_t n) {
  const Rows& math = rows();
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t size = std::min(kPiece, n - i);
    raise(math.max(x + i, size), x + i);
    if (std::isinf(maximum) && maximum < 0) {
      sum += sum_of_nothing(x + i, size);
      continue;
    }
    sum += static_cast<double>(math.exp_sum(x + i, 1.0f, maximum, size, x + i));
  }
}

void OnlineSoftmax::add_with_entropy(const float* x, int64_t n) {
  const Rows& math = rows();
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t size = std::min(kPiece, n - i);
    raise(math.max(x + i, size), x + i);
    if (std::isinf(maximum) && maximum < 0) {
      sum += sum_of_nothing(x + i, size);
      continue;
    }
    float piece, piece_weighted, work[kPiece];
    math.exp_moments(x + i, maximum, size, work, &piece, &piece_weighted);
    sum += static_cast<double>(piece);
    weighted += static_cast<double>(piece_weighted);
  }
}

float OnlineSoftmax::log_sum_exp() const {
  return maximum + exact_log(static_cast<float>(sum));
}

float OnlineSoftmax::entropy() const {
  const float value = static_cast<float>(static_cast<double>(maximum) - weighted / sum) +
                      exact_log(static_cast<float>(sum));
  return value < 0.0f ? 0.0f : value; // keeps NaN
}

} // namespace dllm::cpu
