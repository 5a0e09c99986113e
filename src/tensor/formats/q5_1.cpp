// q5_1 of ggml: 32 numbers are an f16 scale d, an f16 minimum m and 32 levels of 5 bits; x = d q +
// m. Bytes: d, m, a word of fifth bits, 16 bytes of the low four bits.

#include "tensor/formats/blocks.h"
#include "tensor/formats/fit.h"

namespace dllm {
namespace {

struct BlockQ5_1 {
  static constexpr int64_t kBlock = 32, kBytes = 24;
  static constexpr int64_t kHalves[] = {0, 2};

  static void encode(const float* x, uint8_t* block) {
    const formats::LineFit fit = formats::fit_line(x, 32, 31, false);
    const float d = formats::store_half(fit.scale, block), inverse = d > 0 ? 1 / d : 0;
    const float m = formats::store_half(fit.offset, block + 2);
    uint8_t levels[32];
    for (int i = 0; i < 32; ++i)
      levels[i] = static_cast<uint8_t>(formats::nearest_level((x[i] - m) * inverse, 0, 31));
    formats::store_fifth_bits(levels, block + 4);
    formats::store_nibbles(levels, block + 8);
  }

  static void decode(const uint8_t* block, float* x) {
    const float d = formats::load_half(block), m = formats::load_half(block + 2);
    for (int i = 0; i < 32; ++i) {
      const int q = formats::nibble(block + 8, i) | formats::fifth_bit(block + 4, i);
      x[i] = d * static_cast<float>(q) + m;
    }
  }
};

} // namespace

extern const WeightFormat kFormatQ5_1;
constinit const WeightFormat kFormatQ5_1 = formats::BlockFunctions<BlockQ5_1>::format(
    "q5_1", "5-bit integers, an f16 scale and minimum per 32 numbers of a row (ggml)");

} // namespace dllm
