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
  // With by_clock: updates of a warm-up that option warmup counts. The rate is the smaller one of
  // this warm-up and of the schedule.
  int64_t ramp = 0;
  static constexpr int64_t kClockTicks = 1'000'000;

  // Returns the factor of the peak rate for the update after `updates` applied ones. `clock` is the
  // used share of a budget of minutes or tokens, if there is one. The schedule follows the larger
  // share, and the clock alone with `by_clock`.
  double factor(int64_t updates, double clock = 0) const;

private:
  double factor_at(int64_t updates) const;
};

// Returns the part of option tokens that `tokens` is, at most 1; 0 without this budget.
double token_share(const Options& options, int64_t tokens);

// Fails with invalid_argument when the schedule needs a total number of steps and has none.
LearningRate learning_rate_of(const Options& options);

} // namespace dllm::train
