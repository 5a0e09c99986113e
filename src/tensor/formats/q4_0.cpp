// q4_0 of ggml: 32 numbers are an f16 scale d and 32 levels of 4 bits; x = d (q - 8).
// Bytes: d, 16 bytes of levels.

#include "tensor/formats/blocks.h"
#include "tensor/formats/fit.h"

namespace dllm {
namespace {

struct BlockQ4_0 {
  static constexpr int64_t kBlock = 32, kBytes = 18;
  static constexpr int64_t kHalves[] = {0};

  static void encode(const float* x, uint8_t* block) {
    const float scale = formats::fit_scale(x, 32, -8, formats::kFitStep, [](float v) {
      return static_cast<float>(formats::nearest_level(v, -8, 7));
    });
    const float d = formats::store_half(scale, block), inverse = d != 0 ? 1 / d : 0;
    uint8_t levels[32];
    for (int i = 0; i < 32; ++i)
      levels[i] = static_cast<uint8_t>(formats::nearest_level(x[i] * inverse, -8, 7) + 8);
    formats::store_nibbles(levels, block + 2);
  }

  static void decode(const uint8_t* block, float* x) {
    const float d = formats::load_half(block);
    for (int i = 0; i < 32; ++i) x[i] = d * static_cast<float>(formats::nibble(block + 2, i) - 8);
  }
};

} // namespace

extern const WeightFormat kFormatQ4_0;
constinit const WeightFormat kFormatQ4_0 = formats::BlockFunctions<BlockQ4_0>::format(
    "q4_0", "4-bit integers, one f16 scale per 32 numbers of a row (ggml)");

} // namespace dllm
