#pragma once
// Draws the times of an update and weighs them. Objectives with continuous times share it.

#include "base/options.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace dllm::noise {

// Returns the options time_epsilon, time_limit and time_sampling. `limit` is the default of
// time_limit.
std::vector<OptionSpec> time_options(double limit = 1.0);

class TimeSampler {
public:
  // Fails with invalid_argument for options that exclude each other.
  explicit TimeSampler(const Options& options);

  // Returns true when a time depends on the number of rows of the whole update.
  bool spreads() const { return spreads_; }
  // Returns uniform numbers (rows, times) that depend on (seed, step, global row) alone. `global`
  // is the number of the first row in the update, and the number of rows of the update. Spread
  // numbers fall one into each of n = times * rows parts of [0, 1]:
  //   (u / n + i / n) mod 1, with i the number of the time in the update
  // (nano-dlm; MDLM's low-discrepancy sampler).
  std::vector<float> draws(int64_t rows, int64_t times, std::pair<int64_t, int64_t> global,
                           uint64_t seed, int64_t step) const;
  // Returns the time of a uniform number: epsilon + (limit - epsilon) u, or a log-uniform time
  // (importance).
  float time(float uniform) const;
  // Returns the density of uniform times divided by the density of drawn times: 1, or for
  // importance t ln(limit / epsilon) / (limit - epsilon).
  double density(double t) const;

private:
  double low_, high_;
  bool spreads_, log_uniform_;
};

} // namespace dllm::noise
