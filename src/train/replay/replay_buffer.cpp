#include "train/replay/replay_buffer.h"

#include "base/error.h"
#include "base/random.h"

#include <algorithm>
#include <array>

namespace dllm::train {
namespace {

// Folded into the key of the alignment of a micro-batch, whose own draws use 1.
enum ReplayDraw : uint32_t { kReplayChance = 2, kReplayPlace = 3 };

} // namespace

ReplayBuffer::ReplayBuffer(const Options& options)
    : most_(options.i64("replay")), warmup_(options.i64("replay_warmup")),
      probability_(options.f64("replay_prob")), seed_(static_cast<uint64_t>(options.i64("seed"))) {
  if (most_ == 0 || warmup_ <= most_) return;
  fail_with_hint("set a smaller replay_warmup, or a larger replay", Code::invalid_argument,
                 "replay keeps {} batches, and replay_warmup waits for {}", most_, warmup_);
}

const ReplayedBatch* ReplayBuffer::drawn(int64_t number) const {
  const auto count = static_cast<int64_t>(kept_.size());
  if (!is_on() || count < std::max<int64_t>(warmup_, 1)) return nullptr;
  const Key key = stream_key(seed_, Stream::align, static_cast<uint64_t>(number), 0);
  const float chance = uniform_from_bits(random_bits_at(fold_in(key, kReplayChance), 0));
  if (static_cast<double>(chance) >= probability_) return nullptr;
  std::array<int32_t, 1> place{};
  random_int(fold_in(key, kReplayPlace), place, 0, static_cast<int32_t>(count));
  return &kept_[static_cast<size_t>(place[0])];
}

void ReplayBuffer::push(const Batch& rows, const NoiseKey& key,
                        const std::optional<UpdatePart>& part) {
  if (!is_on()) return;
  ReplayedBatch made{{}, key, part};
  for (const auto& [name, array] : rows) made.rows.set(name, array.clone());
  kept_.push_back(std::move(made));
  while (static_cast<int64_t>(kept_.size()) > most_) kept_.pop_front();
}

} // namespace dllm::train
