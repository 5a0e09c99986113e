// q5_k of ggml: 256 numbers are 8 groups of 32. A group has a scale and a minimum (k_scales.h) and
// levels of 5 bits. Bytes: d, dmin, 12 bytes of scales and minimums, 32 bytes of fifth bits, 128
// bytes of the low four bits.

#include "tensor/formats/k_scales.h"

namespace dllm {
namespace {

struct BlockQ5_K {
  static constexpr int64_t kBlock = 256, kBytes = 176;
  static constexpr int64_t kHalves[] = {0, 2};

  static void encode(const float* x, uint8_t* block) {
    uint8_t levels[256];
    formats::encode_groups(x, 31, block, levels);
    std::memset(block + 16, 0, 32);
    for (int i = 0; i < 256; ++i) {
      uint8_t& fifth = block[16 + i % 32];
      fifth = static_cast<uint8_t>(fifth | levels[i] >> 4 << (i / 32));
    }
    formats::store_group_nibbles(levels, block + 48);
  }
  static void decode(const uint8_t* block, float* x) {
    formats::decode_groups(block, block + 16, block + 48, x);
  }
};

} // namespace

extern const WeightFormat kFormatQ5_K;
constinit const WeightFormat kFormatQ5_K = formats::BlockFunctions<BlockQ5_K>::format(
    "q5_k", "5-bit integers, 6-bit scales and minimums per 32 numbers, in blocks of 256 (ggml)");

} // namespace dllm
