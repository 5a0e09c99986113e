#include "text/shuffle.h"

#include <algorithm>
#include <bit>

namespace dllm::text {

int64_t permuted(int64_t index, int64_t count, Key key) {
  constexpr uint32_t kRounds = 6;
  const int bits = std::max(2, static_cast<int>(std::bit_width(static_cast<uint64_t>(count - 1))));
  const int half =
      (bits + 1) / 2; // both halves are this wide: the domain is at most 4 times `count`
  const uint64_t mask = (uint64_t{1} << half) - 1;
  auto x = static_cast<uint64_t>(index);
  do { // a value outside 0..count-1 is walked on: the cycle it lies on comes back inside
    uint64_t left = x >> half, right = x & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const auto [hi, lo] = threefry2x32(key, static_cast<uint32_t>(right), round);
      const uint64_t next = left ^ (((static_cast<uint64_t>(hi) << 32) | lo) & mask);
      left = right;
      right = next;
    }
    x = (left << half) | right;
  } while (x >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(x);
}

} // namespace dllm::text
