#pragma once
// Encodes and decodes the scales of the ggml formats q4_k and q5_k. A block is 8 groups of 32
// numbers, x = (d scale) q - dmin minimum. Each group has a scale and a minimum of 6 bits. The 16
// numbers of 6 bits are packed into 12 bytes. The upper two bits of groups 4 to 7 are stored in the
// upper two bits of the first eight bytes.

#include "tensor/formats/blocks.h"
#include "tensor/formats/fit.h"

namespace dllm::formats {

struct SixBits {
  int scale, minimum;
};

inline SixBits load_six_bits(const uint8_t* packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  return {(packed[group + 4] & 15) | packed[group - 4] >> 6 << 4,
          packed[group + 4] >> 4 | packed[group] >> 6 << 4};
}

inline void store_six_bits(const SixBits (&groups)[8], uint8_t* packed) {
  for (int j = 0; j < 4; ++j) {
    const SixBits low = groups[j], high = groups[j + 4];
    packed[j] = static_cast<uint8_t>(low.scale | high.scale >> 4 << 6);
    packed[j + 4] = static_cast<uint8_t>(low.minimum | high.minimum >> 4 << 6);
    packed[j + 8] = static_cast<uint8_t>((high.scale & 15) | (high.minimum & 15) << 4);
  }
}

// Fits all groups, stores d, dmin and the 12 bytes, and writes the 256 levels.
inline void encode_groups(const float* x, int top_level, uint8_t* block, uint8_t* levels) {
  LineFit fits[8];
  float top_scale = 0, top_minimum = 0;
  for (int j = 0; j < 8; ++j) {
    fits[j] = fit_line(x + 32 * j, 32, top_level, true);
    // The offset is at most 0, also for a group whose numbers are all positive.
    fits[j].offset = std::min(fits[j].offset, 0.0f);
    top_scale = std::max(top_scale, fits[j].scale);
    top_minimum = std::max(top_minimum, -fits[j].offset);
  }
  const float d = store_half(top_scale / 63, block), dmin = store_half(top_minimum / 63, block + 2);
  SixBits groups[8];
  for (int j = 0; j < 8; ++j) {
    groups[j].scale = d > 0 ? nearest_level(fits[j].scale / d, 0, 63) : 0;
    groups[j].minimum = dmin > 0 ? nearest_level(-fits[j].offset / dmin, 0, 63) : 0;
    const float scale = d * static_cast<float>(groups[j].scale);
    const float minimum = dmin * static_cast<float>(groups[j].minimum);
    const float inverse = scale > 0 ? 1 / scale : 0;
    for (int i = 32 * j; i < 32 * (j + 1); ++i)
      levels[i] = static_cast<uint8_t>(nearest_level((x[i] + minimum) * inverse, 0, top_level));
  }
  store_six_bits(groups, block + 4);
}

// Packs the levels: groups 2c and 2c + 1 are the low and the high halves of 32 bytes.
inline void store_group_nibbles(const uint8_t* levels, uint8_t* packed) {
  for (int i = 0; i < 128; ++i) {
    const uint8_t* pair = levels + i / 32 * 64 + i % 32;
    packed[i] = static_cast<uint8_t>((pair[0] & 15) | (pair[32] & 15) << 4);
  }
}

// fifth: 32 bytes, or null. Bit j of byte i is the fifth bit of number i of group j.
inline void decode_groups(const uint8_t* block, const uint8_t* fifth, const uint8_t* nibbles,
                          float* x) {
  const float d = load_half(block), dmin = load_half(block + 2);
  for (int j = 0; j < 8; ++j) {
    const SixBits bits = load_six_bits(block + 4, j);
    const float scale = d * static_cast<float>(bits.scale);
    const float minimum = dmin * static_cast<float>(bits.minimum);
    const uint8_t* from = nibbles + j / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      int q = from[i] >> (j % 2 * 4) & 15;
      if (fifth != nullptr) q |= (fifth[i] >> j & 1) << 4;
      x[32 * j + i] = scale * static_cast<float>(q) - minimum;
    }
  }
}

} // namespace dllm::formats
