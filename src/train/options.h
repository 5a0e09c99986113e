#pragma once
// The schema of a trainer, and its numbers as plain data.

#include "base/options.h"

#include <cstdint>
#include <string>

namespace dllm::train {

const Schema& trainer_schema(); // "trainer"
const Schema& sink_schema();    // "sink"

// The learning rate by number of applied updates.
// constant: warm-up, then flat. linear, cosine: warm-up, then down to the floor at `total`. wsd:
// warm-up, flat to `cooldown_start`, linear to the floor at `total`.
struct LearningRate {
  std::string kind = "constant";
  double floor_share = 0; // min_lr / lr
  int64_t warmup = 0;     // updates
  int64_t total = 0;
  int64_t cooldown_start = 0; // wsd only
  // The references' first update has rate 0 (dllm-jax; nano-dlm); ours has peak /
  // warmup.
  bool starts_at_zero = false;
  // No number of updates is known: all counts above are shares of the clock, in kClockTicks.
  bool by_clock = false;
  static constexpr int64_t kClockTicks = 1'000'000;

  // Factor of the peak rate for the update after `updates` applied ones.
  // clock: share of a budget of minutes that is used, where there is one; the schedule follows
  // whichever is further, and the clock alone when `by_clock`.
  double factor(int64_t updates, double clock = 0) const;
};

// What may change between steps (Trainer::set_f64) and therefore belongs to a checkpoint.
struct Hyper {
  double lr = 0; // peak
  double weight_decay = 0;
  double clip = 0; // 0: off
};

Hyper hyper_of(const Options& options);
// Fails with invalid_argument when the schedule lacks its total number of steps.
LearningRate learning_rate_of(const Options& options);

} // namespace dllm::train
