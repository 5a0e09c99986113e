#pragma once
// Steps that were started and whose numbers nobody has read yet. On an engine that runs ahead the
// host prepares the next batch while the device works, so it looks at a step kMostUnread steps
// late; on the others at once. Private to src/train.

#include "train/state.h"

namespace dllm::train {

// Of steps and micro-batches, between two calls of the trainer.
constexpr size_t kMostUnread = 2;

// Starts a step, as Trainer::step and its halves: the counters then stand behind it.
void start_fused(Trainer::State& state, const Batch& batch, const Task* task);
void start_accumulate(Trainer::State& state, const Batch& batch, const Task* task);
void start_apply(Trainer::State& state, const Task* task);

// Reads the oldest step, waiting for it, and publishes its numbers. Fails with aborted when it was
// not finite and nonfinite = stop: it and all behind it are as if never started. When the device
// failed, the trainer's state is lost.
void settle_oldest(Trainer::State& state);
void settle_all(Trainer::State& state);
// Until another step may start.
void make_room(Trainer::State& state);

} // namespace dllm::train
