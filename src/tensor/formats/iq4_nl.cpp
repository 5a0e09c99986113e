// iq4_nl of ggml: 32 numbers are an f16 scale d and 32 indices of 4 bits into a table of uneven
// levels; x = d table[q]. Bytes: d, 16 bytes of indices.

#include "tensor/formats/blocks.h"
#include "tensor/formats/fit.h"
#include "tensor/formats/levels.h"

namespace dllm {
namespace {

struct BlockIq4Nl {
  static constexpr int64_t kBlock = 32, kBytes = 18;
  static constexpr int64_t kHalves[] = {0};

  static void encode(const float* x, uint8_t* block) {
    const float scale = formats::fit_scale(x, 32, -127, 1.0f, [](float v) {
      return static_cast<float>(formats::kIq4Levels[formats::nearest_of(formats::kIq4Levels, v)]);
    });
    const float d = formats::store_half(scale, block), inverse = d != 0 ? 1 / d : 0;
    uint8_t levels[32];
    for (int i = 0; i < 32; ++i)
      levels[i] = static_cast<uint8_t>(formats::nearest_of(formats::kIq4Levels, x[i] * inverse));
    formats::store_nibbles(levels, block + 2);
  }

  static void decode(const uint8_t* block, float* x) {
    const float d = formats::load_half(block);
    for (int i = 0; i < 32; ++i)
      x[i] = d * static_cast<float>(formats::kIq4Levels[formats::nibble(block + 2, i)]);
  }
};

} // namespace

extern const WeightFormat kFormatIq4Nl;
constinit const WeightFormat kFormatIq4Nl = formats::BlockFunctions<BlockIq4Nl>::format(
    "iq4_nl", "4-bit places in a table of levels, one f16 scale per 32 numbers of a row (ggml)");

} // namespace dllm
