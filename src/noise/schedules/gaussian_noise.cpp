#include "noise/schedules/gaussian_noise.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace dllm::noise {

double gaussian_alpha(double gamma, int64_t tokens) {
  const double mean = std::exp(-gamma / 2); // a / s
  const auto k = static_cast<double>(tokens);
  constexpr double kReach = 9, kStep = 1.0 / 64; // phi is below 1e-18 outside
  double integral = 0;
  for (double z = mean - kReach; z <= mean + kReach; z += kStep) {
    const double density = std::exp(-(z - mean) * (z - mean) / 2);
    const double below = std::erfc(-z / std::numbers::sqrt2) / 2;
    integral += density * std::pow(below, k - 1);
  }
  integral *= kStep / std::sqrt(2 * std::numbers::pi);
  return std::clamp((k * integral - 1) / (k - 1), 0.0, 1.0);
}

namespace {

// Returns the index-th smallest of 0, 1, ... that is not in `taken`, which is sorted, and adds it
// to `taken`.
int64_t take_free(std::vector<int64_t>& taken, int64_t index) {
  auto place = taken.begin();
  for (; place != taken.end() && *place <= index; ++place) ++index;
  taken.insert(place, index);
  return index;
}

} // namespace

SoftToken draw_soft_token(Key key, uint64_t number, int64_t clean, int64_t tokens, double gamma,
                          double temperature) {
  uint64_t next = number * 2 * kSoftTokens;
  const auto uniform = [&] { // inside of (0, 1)
    return (static_cast<double>(random_bits_at(key, next++)) + 0.5) * 0x1p-32;
  };
  const double a = std::sqrt(1 / (1 + std::exp(gamma))), s = std::sqrt(1 / (1 + std::exp(-gamma)));
  SoftToken made;
  std::array<double, kSoftTokens> values{};
  made.tokens[0] = clean;
  values[0] = a + s * normal_quantile(uniform());
  const int64_t others = std::min(kSoftTokens - 1, tokens - 1);
  std::vector<int64_t> taken{clean};
  double largest = 1; // the last drawn of the uniform numbers, in falling order
  for (int64_t i = 1; i <= others; ++i) {
    const int64_t left = tokens - i; // numbers that are not larger than the earlier ones
    largest *= std::pow(uniform(), 1 / static_cast<double>(left));
    const auto place = static_cast<size_t>(i);
    values[place] = s * normal_quantile(std::min(largest, 1 - 0x1p-53));
    const auto index = static_cast<int64_t>(uniform() * static_cast<double>(left));
    made.tokens[place] = take_free(taken, std::min(index, left - 1));
  }
  const auto end = values.begin() + others + 1;
  const auto top = std::max_element(values.begin(), end);
  made.noisy = made.tokens[static_cast<size_t>(top - values.begin())];
  double sum = 0;
  for (auto value = values.begin(); value != end; ++value)
    sum += std::exp((*value - *top) / temperature);
  for (size_t i = 0; i < static_cast<size_t>(kSoftTokens); ++i) {
    const bool used = i <= static_cast<size_t>(others);
    if (!used) made.tokens[i] = clean;
    made.weights[i] =
        used ? static_cast<float>(std::exp((values[i] - *top) / temperature) / sum) : 0.0f;
  }
  return made;
}

} // namespace dllm::noise
