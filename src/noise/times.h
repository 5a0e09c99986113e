#pragma once
// Times of an update: how they are drawn, and what a drawn time weighs. Objectives with continuous times share this.

#include "base/options.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace dllm::noise {

// time_epsilon, time_limit, time_sampling. limit: the default of time_limit.
std::vector<OptionSpec> time_options(double limit = 1.0);

class TimeSampler {
public:
  // Fails with invalid_argument for options that exclude each other.
  explicit TimeSampler(const Options& options);

  // True when a time depends on how many rows the whole update has.
  bool spreads() const { return spreads_; }
  // Uniform numbers (rows, times), `times` of each row, from (seed, step, global row) alone. global: number of the first
  // row within the update and rows of the update. Spread numbers fall one into each of n = times * rows parts:
  // (u / n + i / n) mod 1, i the number of the time within the update (nano-dlm; MDLM's low-discrepancy sampler).
  std::vector<float> draws(int64_t rows, int64_t times, std::pair<int64_t, int64_t> global,
                           uint64_t seed, int64_t step) const;
  // The time of a uniform number: epsilon + (limit - epsilon) u, or log-uniform (importance).
  float time(float uniform) const;
  // Density of uniform times by that of the drawn ones: 1, and t ln(limit / epsilon) / (limit - epsilon) for importance.
  double density(double t) const;

private:
  double low_, high_;
  bool spreads_, log_uniform_;
};

} // namespace dllm::noise
