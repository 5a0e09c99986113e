// q4_k of ggml: 256 numbers are 8 groups of 32. A group has a scale and a minimum (k_scales.h) and
// levels of 4 bits. Bytes: d, dmin, 12 bytes of scales and minimums, 128 bytes of levels.

#include "tensor/formats/k_scales.h"

namespace dllm {
namespace {

struct BlockQ4_K {
  static constexpr int64_t kBlock = 256, kBytes = 144;
  static constexpr int64_t kHalves[] = {0, 2};

  static void encode(const float* x, uint8_t* block) {
    uint8_t levels[256];
    formats::encode_groups(x, 15, block, levels);
    formats::store_group_nibbles(levels, block + 16);
  }
  static void decode(const uint8_t* block, float* x) {
    formats::decode_groups(block, nullptr, block + 16, x);
  }
};

} // namespace

extern const WeightFormat kFormatQ4_K;
constinit const WeightFormat kFormatQ4_K = formats::BlockFunctions<BlockQ4_K>::format(
    "q4_k", "4-bit integers, 6-bit scales and minimums per 32 numbers, in blocks of 256 (ggml)");

} // namespace dllm
