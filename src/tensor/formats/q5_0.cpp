// q5_0 of ggml: 32 numbers are an f16 scale d and 32 levels of 5 bits; x = d (q - 16).
// Bytes: d, a word of fifth bits, 16 bytes of the low four bits.

#include "tensor/formats/blocks.h"
#include "tensor/formats/fit.h"

namespace dllm {
namespace {

struct BlockQ5_0 {
  static constexpr int64_t kBlock = 32, kBytes = 22;
  static constexpr int64_t kHalves[] = {0};

  static void encode(const float* x, uint8_t* block) {
    const float scale = formats::fit_scale(x, 32, -16, formats::kFitStep, [](float v) {
      return static_cast<float>(formats::nearest_level(v, -16, 15));
    });
    const float d = formats::store_half(scale, block), inverse = d != 0 ? 1 / d : 0;
    uint8_t levels[32];
    for (int i = 0; i < 32; ++i)
      levels[i] = static_cast<uint8_t>(formats::nearest_level(x[i] * inverse, -16, 15) + 16);
    formats::store_fifth_bits(levels, block + 2);
    formats::store_nibbles(levels, block + 6);
  }

  static void decode(const uint8_t* block, float* x) {
    const float d = formats::load_half(block);
    for (int i = 0; i < 32; ++i) {
      const int q = formats::nibble(block + 6, i) | formats::fifth_bit(block + 2, i);
      x[i] = d * static_cast<float>(q - 16);
    }
  }
};

} // namespace

extern const WeightFormat kFormatQ5_0;
constinit const WeightFormat kFormatQ5_0 = formats::BlockFunctions<BlockQ5_0>::format(
    "q5_0", "5-bit integers, one f16 scale per 32 numbers of a row (ggml)");

} // namespace dllm
