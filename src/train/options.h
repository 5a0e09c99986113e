#pragma once
// The schemas of a trainer, and its options as plain numbers.

#include "base/options.h"

#include <cstdint>

namespace dllm::train {

const Schema& trainer_schema(); // "trainer"
const Schema& sink_schema();    // "sink"

// The numbers that may change between steps (Trainer::set_f64). A checkpoint saves them.
struct Hyper {
  double lr = 0; // peak
  double weight_decay = 0;
  double clip = 0; // 0: off
};

Hyper hyper_of(const Options& options);
// Returns the steps between two events, for options save_every and sync_every. A value below 1 is a
// part of the `steps` of the run, rounded up. A value from 1 on is a number of steps, rounded down.
// 0 means never. Fails with invalid_argument for a part of a run whose steps are unknown (0).
int64_t interval_steps(const char* name, double every, int64_t steps);

} // namespace dllm::train
