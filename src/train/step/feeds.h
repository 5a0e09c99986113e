#pragma once
// Makes the arrays that the loss of one step reads: it draws the noise and divides the rows among
// the ranks. Private to src/train.

#include "graph/mesh.h"
#include "model/config.h"
#include "noise/objective.h"
#include "tensor/batch.h"

#include <cstdint>
#include <vector>

namespace dllm::train {

// One batch of arrays for each place along the axes that cut the rows of a batch. All have equal
// shapes.
using Feeds = std::vector<Batch>;
// Returns the axes that divide a batch: data, fsdp and expert, where they have several ranks.
graph::AxisSet batch_axes(const graph::Mesh& mesh);

// The place of a micro-batch in its update. The micro-batches of an update are rows of one large
// batch and draw the noise of that batch.
struct UpdatePart {
  int64_t batches = 0;    // micro-batches before this one
  int64_t rows = 0;       // global rows of the micro-batches before this one
  int64_t of_batches = 1; // option accumulate
};

// The key of the noise, which depends on the key and the global row alone.
struct NoiseKey {
  uint64_t seed = 0;
  int64_t step = 0;
  bool of_adapters = false; // adapters of the model have dropout
};

// The array of a feed that keys the dropout of adapters: u32(rows, 2).
inline constexpr const char* kDropoutKeys = "dropout_keys";

// Draws noise for the whole batch, unless it is prepared, then cuts its rows. A null `part` means
// that the batch is a whole update. Fails with invalid_argument when the rows do not divide by the
// ranks.
Feeds make_feeds(const noise::Objective& objective, const model::ModelConfig& config,
                 const Batch& batch, const NoiseKey& key, const UpdatePart* part,
                 const graph::Mesh& mesh);

} // namespace dllm::train
