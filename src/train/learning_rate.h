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
  int64_t warmup = 0;     // updates; -1: warmup_ratio of all updates
  int64_t total = 0;      // updates; 0: a budget ends the run, or nothing does
  // Updates before wsd falls; 0: four fifths of all updates.
  int64_t cooldown_start = 0;
  // true: the first update has rate 0, as in dllm-jax and nano-dlm. false: it has peak / warmup.
  bool starts_at_zero = false;
  double warmup_ratio = 0;
  bool has_budget = false; // of minutes or tokens

  // Returns the factor of the peak rate for the update after `updates` applied ones. clock: the
  // used share of a budget of minutes or tokens; 0: none. At this pace the budget lasts for
  // updates / clock updates, and the rate is the rate of a run of that length. first_share: the
  // share that the first update will use, where it is known.
  double factor(int64_t updates, double clock = 0, double first_share = 0) const;

  // Returns the number of updates of the run that the budget allows; 0: nothing ends it.
  int64_t expected_updates(int64_t updates, double clock, double first_share) const;
  int64_t warmup_of(int64_t updates) const; // of a run of so many updates

private:
  double after_warmup(int64_t updates, int64_t begin, int64_t all) const;
};

// Returns the part of option tokens that `tokens` is, at most 1; 0 without this budget.
double token_share(const Options& options, int64_t tokens);

// Fails with invalid_argument when the schedule needs a total number of steps and has none.
LearningRate learning_rate_of(const Options& options);

} // namespace dllm::train
