#include "decode/step_shape.h"

#include <algorithm>
#include <bit>

namespace dllm::decode {
namespace {

constexpr int64_t kLeastCapacity = 16, kKeyStep = 64;

} // namespace

int64_t round_up(int64_t count, int64_t step) {
  const auto units = static_cast<uint64_t>(std::max<int64_t>(1, (count + step - 1) / step));
  const uint64_t power = std::bit_ceil(units);
  return static_cast<int64_t>(power >= 4 && units <= power / 4 * 3 ? power / 4 * 3 : power) * step;
}

int64_t head_capacity(int64_t positions) {
  return static_cast<int64_t>(
      std::bit_ceil(static_cast<uint64_t>(std::max(positions, kLeastCapacity))));
}

StepShape pass_shape(const model::ModelConfig& config, std::span<const PassRow> rows,
                     const CacheShape& cache, int64_t least_rows) {
  const Ask& first = *rows[0].ask;
  const int64_t count = std::max(static_cast<int64_t>(rows.size()), least_rows);
  StepShape shape{round_up(count, 1), 0, 0, 0, 0, !first.unconditional.empty(),
                  !first.soft.empty()};
  int64_t keys = 0;
  for (const PassRow& row : rows) {
    const Ask& ask = *row.ask;
    shape.window = std::max(shape.window, ask.end - ask.begin);
    // The last position sees farthest.
    const int64_t span = ask.span_end < 0 ? row.slot->length() : ask.span_end;
    keys = std::max(keys, std::min(row.slot->span.limit(ask.end - 1), span));
  }
  shape.window = std::min(round_up(shape.window, 8), std::max(config.max_positions, shape.window));
  if (first.cached) {
    shape.keys = std::min(round_up(keys, kKeyStep), cache.capacity);
    shape.cache_rows = cache.rows * cache.capacity;
    shape.saved_rows = cache.saved_rows;
  }
  return shape;
}

} // namespace dllm::decode
