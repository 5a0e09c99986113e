#pragma once
// The learning rate of a trainer by number of updates.

#include "base/options.h"

#include <cstdint>
#include <string>

namespace dllm::train {

// The learning rate by number of applied updates. constant: warm-up, then flat. linear, cosine:
// warm-up, then down to the floor at `total`. wsd: warm-up, flat to `cooldown_start`, then linear
// to the floor at `total`. inverse_sqrt: warm-up, then as sqrt(warmup / update).
struct LearningRate {
  std::string kind = "constant";
  double floor_share = 0; // min_lr / lr
  int64_t warmup = 0;     // updates
  int64_t total = 0;
  int64_t cooldown_start = 0; // for wsd
  // true: the first update has rate 0, as in dllm-jax and nano-dlm. false: it has peak / warmup.
  bool starts_at_zero = false;
  // true: the number of updates is unknown, and all counts above are shares of the clock in
  // kClockTicks.
  bool by_clock = false;
  static constexpr int64_t kClockTicks = 1'000'000;

  // Returns the factor of the peak rate for the update after `updates` applied ones. `clock` is the
  // used share of a budget of minutes, if there is one. The schedule follows the larger of the two
  // shares, and the clock alone with `by_clock`.
  double factor(int64_t updates, double clock = 0) const;
};

// Fails with invalid_argument when the schedule needs a total number of steps and has none.
LearningRate learning_rate_of(const Options& options);

} // namespace dllm::train
