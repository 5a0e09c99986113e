// bf16: the upper half of an f32, rounded to nearest, ties to even.

#include "tensor/weight_format.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dllm {
namespace {

double quantize_bf16(const float* row, int64_t k, std::byte* to, float*) {
  auto* out = reinterpret_cast<uint16_t*>(to);
  double top = 0, worst = 0;
  for (int64_t i = 0; i < k; ++i) {
    out[i] = f32_to_bf16(row[i]);
    top = std::max(top, std::abs(static_cast<double>(row[i])));
    worst = std::max(worst, std::abs(static_cast<double>(bf16_to_f32(out[i])) - row[i]));
  }
  return top > 0 ? worst / top : 0;
}

void dequantize_bf16(const std::byte* row, const float*, int64_t k, float* to) {
  const auto* from = reinterpret_cast<const uint16_t*>(row);
  for (int64_t i = 0; i < k; ++i) to[i] = bf16_to_f32(from[i]);
}

} // namespace

extern const WeightFormat kFormatBf16;
const WeightFormat kFormatBf16 = {
    .name = "bf16",
    .text = "16-bit floats with the exponent of f32",
    .element = DType::bf16,
    .block = 1,
    .block_bytes = 2,
    .arithmetics = kArithmeticF32 | kArithmeticBf16,
    .quantize = quantize_bf16,
    .dequantize = dequantize_bf16,
    .to_lane = nullptr,
    .from_lane = nullptr,
    .largest = std::bit_cast<float>(0x7F7F0000u),
};

} // namespace dllm
