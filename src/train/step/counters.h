#pragma once
// What a trainer counts. Private to src/train.

#include <cstdint>

namespace dllm::train {

struct Counters {
  int64_t step = 0;    // optimizer steps, with those that were left out
  int64_t updates = 0; // steps that changed the weights
  int64_t skipped = 0; // steps that were left out because a number was not finite
  int64_t tokens = 0;
  int64_t batches = 0; // prepared batches, with micro-batches
};

} // namespace dllm::train
