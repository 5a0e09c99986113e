#pragma once
// Fits the scale and offset of a group of numbers, x = scale q + offset, by least squares. For
// given levels q the best scale and offset are a linear regression. The levels follow from a guess
// of the scale. Several guesses are tried, around the scale that maps the largest number to the
// last level; the fit with the smallest squared error is kept.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dllm::formats {

inline int nearest_level(float x, int low, int high) {
  // Infinity and NaN get an arbitrary level, because loading a model rejects them.
  const float whole = std::nearbyint(x);
  return whole <= static_cast<float>(low)    ? low
         : whole >= static_cast<float>(high) ? high
         : whole == whole                    ? static_cast<int>(whole)
                                             : 0;
}

inline constexpr int kFitSteps = 12;    // guesses on each side
inline constexpr float kFitStep = 0.1f; // distance of two guesses, in levels

// Returns the scale of x = scale * level(q), or 0 if all numbers are 0. value(x): the level nearest
// to x. end: the last level, to which the guesses map the largest |x|. apart: distance of two
// guesses.
template <class Value>
float fit_scale(const float* x, int count, float end, float apart, Value value) {
  float top = 0;
  for (int i = 0; i < count; ++i) {
    if (std::abs(x[i]) > std::abs(top)) top = x[i];
  }
  if (top == 0 || !std::isfinite(top)) return 0;
  float best_scale = top / end, best = -1; // best: decrease of the squared error
  for (int step = -kFitSteps; step <= kFitSteps; ++step) {
    const float inverse = (end + apart * static_cast<float>(step)) / top;
    float xq = 0, qq = 0;
    for (int i = 0; i < count; ++i) {
      const float q = value(x[i] * inverse);
      xq += x[i] * q;
      qq += q * q;
    }
    if (qq > 0 && xq * xq > best * qq) {
      best = xq * xq / qq;
      best_scale = xq / qq;
    }
  }
  return best_scale;
}

struct LineFit {
  float scale, offset;
};

// Fits x = scale q + offset with q in 0..levels. downward: the offset is at most 0.
inline LineFit fit_line(const float* x, int count, int levels, bool downward) {
  float low = x[0], high = x[0];
  for (int i = 1; i < count; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  if (downward) low = std::min(low, 0.0f);
  if (!(high > low) || !std::isfinite(high - low)) return {0, std::isfinite(low) ? low : 0};
  LineFit best = {(high - low) / static_cast<float>(levels), low};
  float best_error = -1;
  for (int step = -kFitSteps; step <= kFitSteps; ++step) {
    const float inverse =
        (static_cast<float>(levels) + kFitStep * static_cast<float>(step)) / (high - low);
    const auto level = [&](float value) {
      return std::clamp(std::nearbyint((value - low) * inverse), 0.0f, static_cast<float>(levels));
    };
    float sx = 0, sq = 0, sqq = 0, sxq = 0;
    for (int i = 0; i < count; ++i) {
      const float q = level(x[i]);
      sx += x[i];
      sq += q;
      sqq += q * q;
      sxq += x[i] * q;
    }
    const float n = static_cast<float>(count), determinant = n * sqq - sq * sq;
    if (!(determinant > 0)) continue;
    LineFit fit = {(n * sxq - sx * sq) / determinant, (sqq * sx - sq * sxq) / determinant};
    if (downward && fit.offset > 0) fit = {sxq / sqq, 0};
    float error = 0;
    for (int i = 0; i < count; ++i) {
      const float rest = fit.scale * level(x[i]) + fit.offset - x[i];
      error += rest * rest;
    }
    if (fit.scale > 0 && (best_error < 0 || error < best_error)) {
      best_error = error;
      best = fit;
    }
  }
  return best;
}

} // namespace dllm::formats
