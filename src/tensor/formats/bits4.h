#pragma once
// The 4-bit formats of bitsandbytes: 64 numbers are an f32 scale, their largest |x|, and 64 indices
// into a table of levels in [-1, 1]; x = scale table[q]. Bytes: the scale, 32 bytes of indices;
// byte i has number i in its low half and number 32 + i in its high half. bitsandbytes keeps
// neighbouring numbers in a byte and the scales apart (ckpt/bitsandbytes).

#include "tensor/formats/blocks.h"
#include "tensor/formats/levels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

namespace dllm::formats {

// Finds the nearest level as bitsandbytes does: the number of thresholds below x, which are the
// middles of neighbouring levels.
class NearestFloat {
public:
  explicit NearestFloat(std::span<const float, 16> levels) {
    for (int q = 0; q < 16; ++q) order_[static_cast<size_t>(q)] = q;
    std::ranges::stable_sort(order_, {}, [&](int q) { return levels[static_cast<size_t>(q)]; });
    for (size_t i = 0; i < middles_.size(); ++i)
      middles_[i] = 0.5f * (levels[static_cast<size_t>(order_[i])] +
                            levels[static_cast<size_t>(order_[i + 1])]);
  }
  int operator()(float x) const {
    return order_[static_cast<size_t>(std::ranges::lower_bound(middles_, x) - middles_.begin())];
  }

private:
  std::array<int, 16> order_{};
  std::array<float, 15> middles_{};
};

// Returns the scale of `count` numbers and stores their levels, one in each byte.
inline float encode_bits4(const NearestFloat& nearest, const float* x, int64_t count,
                          uint8_t* levels) {
  float top = 0;
  for (int64_t i = 0; i < count; ++i) top = std::max(top, std::abs(x[i]));
  const float inverse = top > 0 ? 1 / top : 0;
  for (int64_t i = 0; i < count; ++i) levels[i] = static_cast<uint8_t>(nearest(x[i] * inverse));
  return top;
}

template <const float (&kLevels)[16]> struct Bits4Block {
  static constexpr int64_t kBlock = 64, kBytes = 36;
  static constexpr const float (*kBitsandbytes)[16] = &kLevels;
  // The scale is f32.
  static constexpr float kLargest = std::numeric_limits<float>::max();
  static constexpr std::array<int64_t, 0> kHalves = {};
  static constexpr int64_t kSingles[] = {0};

  static void encode(const float* x, uint8_t* block) {
    uint8_t levels[kBlock];
    static const NearestFloat nearest(kLevels);
    const float scale = encode_bits4(nearest, x, kBlock, levels);
    store(scale, levels, block);
  }
  static void store(float scale, const uint8_t* levels, uint8_t* block) {
    std::memcpy(block, &scale, sizeof scale);
    for (int i = 0; i < 32; ++i)
      block[4 + i] = static_cast<uint8_t>((levels[i] & 15) | (levels[32 + i] & 15) << 4);
  }
  static void decode(const uint8_t* block, float* x) {
    float scale;
    std::memcpy(&scale, block, sizeof scale);
    for (int i = 0; i < 32; ++i) {
      x[i] = kLevels[block[4 + i] & 15] * scale;
      x[32 + i] = kLevels[block[4 + i] >> 4] * scale;
    }
  }
};

} // namespace dllm::formats
