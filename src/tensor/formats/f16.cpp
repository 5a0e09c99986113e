// f16: IEEE half floats. Graphs do not compute with arrays of this type, so a matrix of f16 is
// stored as bytes, in blocks of one number.

#include "tensor/weight_format.h"

#include <algorithm>
#include <cmath>

namespace dllm {
namespace {

double quantize_f16(const float* row, int64_t k, std::byte* to, float*) {
  auto* out = reinterpret_cast<uint16_t*>(to);
  double top = 0, worst = 0;
  for (int64_t i = 0; i < k; ++i) {
    out[i] = f32_to_f16(row[i]);
    top = std::max(top, std::abs(static_cast<double>(row[i])));
    worst = std::max(worst, std::abs(static_cast<double>(f16_to_f32(out[i])) - row[i]));
  }
  return top > 0 ? worst / top : 0;
}

void dequantize_f16(const std::byte* row, const float*, int64_t k, float* to) {
  const auto* from = reinterpret_cast<const uint16_t*>(row);
  for (int64_t i = 0; i < k; ++i) to[i] = f16_to_f32(from[i]);
}

} // namespace

extern const WeightFormat kFormatF16;
const WeightFormat kFormatF16 = {
    .name = "f16",
    .text = "16-bit floats with 5 bits of exponent",
    .element = DType::u8,
    .block = 1,
    .block_bytes = 2,
    .arithmetics = kArithmeticF32 | kArithmeticBf16,
    .quantize = quantize_f16,
    .dequantize = dequantize_f16,
    .to_lane = nullptr,
    .from_lane = nullptr,
    .largest = 65504,
};

} // namespace dllm
