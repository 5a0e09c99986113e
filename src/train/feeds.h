#pragma once
// The arrays that the loss of one step reads: noise drawn, rows shared out to the ranks. Private to src/train.

#include "graph/mesh.h"
#include "model/config.h"
#include "noise/objective.h"
#include "tensor/batch.h"

#include <cstdint>
#include <vector>

namespace dllm::train {

// One batch of arrays for each place along the axes that the rows of a batch are cut over, all of equal shapes.
using Feeds = std::vector<Batch>;
graph::AxisSet batch_axes(const graph::Mesh& mesh); // data, fsdp and expert, those of several ranks

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

// Noise is drawn for the whole batch unless it is prepared, then its rows are cut. part: null for a whole update. Fails with
// invalid_argument when the rows do not divide by the ranks.
Feeds make_feeds(const noise::Objective& objective, const model::ModelConfig& config,
                 const Batch& batch, const NoiseKey& key, const UpdatePart* part,
                 const graph::Mesh& mesh);

} // namespace dllm::train
