// q6_k of ggml: 256 numbers are 16 groups of 16 with a scale of 8 bits each, and levels of 6 bits;
// x = d scale (q - 32). Bytes: 128 of the low four bits, 64 of the upper two bits, 16 scales, d.
// The two halves of 128 numbers are stored one after the other. A half is four parts of 32 numbers.
// Parts 0 and 2, and 1 and 3, share the bytes of the low bits; all four parts share the bytes of
// the upper bits.

#include "tensor/formats/blocks.h"
#include "tensor/formats/fit.h"

namespace dllm {
namespace {

struct BlockQ6_K {
  static constexpr int64_t kBlock = 256, kBytes = 210;
  static constexpr int64_t kHalves[] = {208};

  static void encode(const float* x, uint8_t* block) {
    float fits[16], top = 0;
    for (int j = 0; j < 16; ++j) {
      fits[j] = formats::fit_scale(x + 16 * j, 16, -32, formats::kFitStep, [](float v) {
        return static_cast<float>(formats::nearest_level(v, -32, 31));
      });
      if (std::abs(fits[j]) > std::abs(top)) top = fits[j];
    }
    const float d = formats::store_half(top / -128, block + 208);
    std::memset(block, 0, 192);
    for (int j = 0; j < 16; ++j) {
      const int scale = d != 0 ? formats::nearest_level(fits[j] / d, -128, 127) : 0;
      block[192 + j] = static_cast<uint8_t>(static_cast<int8_t>(scale));
      const float step = d * static_cast<float>(scale), inverse = step != 0 ? 1 / step : 0;
      for (int i = 16 * j; i < 16 * (j + 1); ++i)
        store(block, i, formats::nearest_level(x[i] * inverse, -32, 31) + 32);
    }
  }

  static void decode(const uint8_t* block, float* x) {
    const float d = formats::load_half(block + 208);
    for (int j = 0; j < 16; ++j) {
      const float scale = d * static_cast<float>(static_cast<int8_t>(block[192 + j]));
      const int half = j / 8, part = j % 8 / 2, column = j % 2 * 16;
      const uint8_t* low = block + half * 64 + part % 2 * 32 + column;
      const uint8_t* high = block + 128 + half * 32 + column;
      for (int i = 0; i < 16; ++i) {
        const int q = (low[i] >> (part / 2 * 4) & 15) | (high[i] >> (part * 2) & 3) << 4;
        x[16 * j + i] = scale * static_cast<float>(q - 32);
      }
    }
  }

private:
  // REQUIRES: the bits of the number in `block` are 0.
  static void store(uint8_t* block, int i, int q) {
    const int half = i / 128, part = i % 128 / 32, column = i % 32;
    uint8_t& low = block[half * 64 + part % 2 * 32 + column];
    uint8_t& high = block[128 + half * 32 + column];
    low = static_cast<uint8_t>(low | (q & 15) << (part / 2 * 4));
    high = static_cast<uint8_t>(high | q >> 4 << (part * 2));
  }
};

} // namespace

extern const WeightFormat kFormatQ6_K;
constinit const WeightFormat kFormatQ6_K = formats::BlockFunctions<BlockQ6_K>::format(
    "q6_k", "6-bit integers, 8-bit scales per 16 numbers, in blocks of 256 (ggml)");

} // namespace dllm
