// mxfp4 (OCP Microscaling Formats 1.0; bytes in the order of ggml): 32 numbers are a power of two
// 2^(e - 127) and 32 floats E2M1; x = 2^(e - 128) * (2 E2M1). The scales of e = 0 and 1 are
// denormal. Bytes: e, 16 bytes of floats.

#include "tensor/formats/blocks.h"
#include "tensor/formats/levels.h"

#include <array>
#include <bit>

namespace dllm {
namespace {

struct BlockMxfp4 {
  static constexpr int64_t kBlock = 32, kBytes = 17;
  static constexpr float kLargest = 0x1.8p127f; // 6 times the largest power of two
  static constexpr std::array<int64_t, 0> kHalves = {};

  // Returns half of the power of two.
  static float scale(int e) {
    const auto power = static_cast<uint32_t>(e);
    return std::bit_cast<float>(e < 2 ? 0x00200000u << power : (power - 1) << 23);
  }

  static float error_at(const float* x, int e) {
    const float d = scale(e), inverse = 1 / d;
    float error = 0;
    for (int i = 0; i < 32; ++i) {
      const int q = formats::nearest_of(formats::kE2m1Doubled, x[i] * inverse);
      const float rest = x[i] - d * static_cast<float>(formats::kE2m1Doubled[q]);
      error += rest * rest;
    }
    return error;
  }

  // Tries the exponent that maps the largest number to the last level, and its neighbours.
  static void encode(const float* x, uint8_t* block) {
    float top = 0;
    for (int i = 0; i < 32; ++i) top = std::max(top, std::abs(x[i]));
    constexpr int kLowest = 2, kHighest = 254; // 1 / scale is finite
    int best = 0;
    if (top > 0 && std::isfinite(top)) {
      const int middle = std::clamp(std::ilogb(top) - 2 + 127, kLowest, kHighest);
      best = middle;
      for (int e = std::max(kLowest, middle - 1); e <= std::min(kHighest, middle + 1); ++e) {
        if (error_at(x, e) < error_at(x, best)) best = e;
      }
    }
    block[0] = static_cast<uint8_t>(best);
    const float inverse = best > 0 ? 1 / scale(best) : 0;
    uint8_t levels[32];
    for (int i = 0; i < 32; ++i)
      levels[i] = static_cast<uint8_t>(formats::nearest_of(formats::kE2m1Doubled, x[i] * inverse));
    formats::store_nibbles(levels, block + 1);
  }

  static void decode(const uint8_t* block, float* x) {
    const float d = scale(block[0]);
    for (int i = 0; i < 32; ++i)
      x[i] = d * static_cast<float>(formats::kE2m1Doubled[formats::nibble(block + 1, i)]);
  }
};

} // namespace

extern const WeightFormat kFormatMxfp4;
constinit const WeightFormat kFormatMxfp4 = formats::BlockFunctions<BlockMxfp4>::format(
    "mxfp4", "4-bit floats, one power of two per 32 numbers of a row (OCP Microscaling)");

} // namespace dllm
