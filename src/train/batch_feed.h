#pragma once
// From the batch of a caller to the arrays of the loss graph. Private to src/train.

#include "noise/objective.h"

namespace dllm::train {

// Tokens of a batch; padding (segment 0) is not counted.
int64_t count_tokens(const Batch& batch);

// Where the noise of a batch starts, in an update of several micro-batches: they are rows of one large batch, and draw
// what that would.
struct UpdatePart {
  int64_t batches = 0;    // before this one
  int64_t rows = 0;       // global rows of these
  int64_t of_batches = 1; // option accumulate
};

// Keys of the noise: it depends on these and on the global row alone.
struct NoiseKey {
  uint64_t seed = 0;
  int64_t step = 0;
};

// The arrays that Objective::loss reads: noise is drawn unless the batch is prepared. part: null for a whole update.
Batch make_feed(const noise::Objective& objective, const model::ModelConfig& config, const Batch& batch,
                const NoiseKey& key, const UpdatePart* part);

}  // namespace dllm::train
