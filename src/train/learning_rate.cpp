#include "train/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dllm::train {

double LearningRate::factor(int64_t updates, double clock) const {
  const auto ticks = static_cast<int64_t>(clock * static_cast<double>(total));
  updates = by_clock ? ticks : std::max(updates, ticks);
  if (updates < warmup) {
    return static_cast<double>(starts_at_zero ? updates : updates + 1) /
           static_cast<double>(warmup);
  }
  if (kind == "constant") return 1.0;
  const int64_t begin = kind == "wsd" ? std::max(cooldown_start, warmup) : warmup;
  if (updates < begin) return 1.0;
  const auto length = static_cast<double>(std::max<int64_t>(total - begin, 1));
  const double part = std::min(static_cast<double>(updates - begin) / length, 1.0);
  const double left =
      kind == "cosine" ? 0.5 * (1.0 + std::cos(std::numbers::pi * part)) : 1.0 - part;
  return floor_share + (1.0 - floor_share) * left;
}

} // namespace dllm::train
