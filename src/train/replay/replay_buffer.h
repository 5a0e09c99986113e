#pragma once
// Keeps the last micro-batches of a run on the host. Some steps align one of them with the teacher
// again, under the weights of today: the replay of dLLM-castlehill, with its gradient. Private to
// src/train.

#include "base/options.h"
#include "tensor/batch.h"
#include "train/step/feeds.h"

#include <cstdint>
#include <deque>
#include <optional>

namespace dllm::train {

// A micro-batch, and what its noise was drawn from.
struct ReplayedBatch {
  Batch rows;                     // as the trainer got them, with storage of their own
  NoiseKey key;                   // of its noise
  std::optional<UpdatePart> part; // none: the batch was a whole update
};

class ReplayBuffer {
public:
  // Reads replay, replay_warmup, replay_prob and seed. Fails with invalid_argument for a warm-up
  // that is longer than the buffer.
  explicit ReplayBuffer(const Options& options);

  bool is_on() const { return most_ > 0; }
  // Returns the batch that micro-batch `number` of the run replays; null: none. The draw depends on
  // the seed, the number and the count of kept batches alone.
  const ReplayedBatch* drawn(int64_t number) const;
  // Keeps a batch. The oldest one goes where the buffer is full.
  void push(const Batch& rows, const NoiseKey& key, const std::optional<UpdatePart>& part);

  const std::deque<ReplayedBatch>& kept() const { return kept_; }
  void set_kept(std::deque<ReplayedBatch> kept) { kept_ = std::move(kept); }

private:
  int64_t most_, warmup_;
  double probability_;
  uint64_t seed_;
  std::deque<ReplayedBatch> kept_; // the oldest first
};

// The arrays of a replayed batch in a feed have this prefix.
inline constexpr const char* kReplayed = "replay:";

} // namespace dllm::train
