// q8_0 of ggml: 32 numbers are an f16 scale d and 32 int8 q; x = d q. The product of 11 and 8 bits
// is exact in f32. A panel block is 16 scales, then [32][16] integers, so one load reads
// neighbouring rows at one k.

#include "tensor/weight_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dllm {
namespace {

constexpr int64_t kQ8Block = 32, kQ8Bytes = 34;

// Quantizes as ggml's reference does: d = max|x| / 127 in f32, q = round(x / d) with halves away
// from zero, d stored as f16.
double quantize_q8_0(const float* row, int64_t k, std::byte* to, float*) {
  double error = 0;
  for (int64_t begin = 0; begin < k; begin += kQ8Block, row += kQ8Block, to += kQ8Bytes) {
    float top = 0;
    for (int64_t i = 0; i < kQ8Block; ++i) top = std::max(top, std::abs(row[i]));
    const float d = top / 127.0f, inverse = d > 0 ? 1.0f / d : 0.0f;
    const uint16_t stored = f32_to_f16(d);
    const float scale = f16_to_f32(stored);
    std::memcpy(to, &stored, sizeof stored);
    double worst = 0;
    for (int64_t i = 0; i < kQ8Block; ++i) {
      const float level = std::clamp(std::round(row[i] * inverse), -127.0f, 127.0f);
      to[2 + i] = static_cast<std::byte>(static_cast<int8_t>(level));
      worst = std::max(worst, std::abs(static_cast<double>(level) * scale - row[i]));
    }
    if (top > 0) error = std::max(error, worst / top);
  }
  return error;
}

void dequantize_q8_0(const std::byte* row, const float*, int64_t k, float* to) {
  for (int64_t begin = 0; begin < k; begin += kQ8Block, row += kQ8Bytes, to += kQ8Block) {
    uint16_t bits;
    std::memcpy(&bits, row, sizeof bits);
    const float d = f16_to_f32(bits);
    const auto* q = reinterpret_cast<const int8_t*>(row + 2);
    for (int64_t i = 0; i < kQ8Block; ++i) to[i] = d * static_cast<float>(q[i]);
  }
}

void q8_0_to_lane(const std::byte* block, int64_t lane, std::byte* panel_block) {
  std::memcpy(panel_block + 2 * lane, block, 2);
  std::byte* to = panel_block + 2 * kPanelRows + lane;
  for (int64_t i = 0; i < kQ8Block; ++i) to[i * kPanelRows] = block[2 + i];
}

void q8_0_from_lane(const std::byte* panel_block, int64_t lane, std::byte* block) {
  std::memcpy(block, panel_block + 2 * lane, 2);
  const std::byte* from = panel_block + 2 * kPanelRows + lane;
  for (int64_t i = 0; i < kQ8Block; ++i) block[2 + i] = from[i * kPanelRows];
}

} // namespace

extern const WeightFormat kFormatQ8_0;
const WeightFormat kFormatQ8_0 = {
    .name = "q8_0",
    .text = "8-bit integers, one f16 scale per 32 numbers of a row (ggml)",
    .element = DType::u8,
    .block = kQ8Block,
    .block_bytes = kQ8Bytes,
    .arithmetics = kArithmeticF32 | kArithmeticBf16 | kArithmeticInt8,
    .quantize = quantize_q8_0,
    .dequantize = dequantize_q8_0,
    .to_lane = q8_0_to_lane,
    .from_lane = q8_0_from_lane,
    .largest = 65504,
};

} // namespace dllm
