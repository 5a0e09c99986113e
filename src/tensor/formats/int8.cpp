// int8: q = round(x / s), s = max|x| / 127 of the row, symmetric. The scales are a separate array,
// so a product multiplies each finished sum by its scale once.

#include "tensor/weight_format.h"

#include <algorithm>
#include <cmath>

namespace dllm {
namespace {

double quantize_int8(const float* row, int64_t k, std::byte* to, float* scale) {
  auto* out = reinterpret_cast<int8_t*>(to);
  float top = 0;
  for (int64_t i = 0; i < k; ++i) top = std::max(top, std::abs(row[i]));
  *scale = top > 0 ? top / 127.0f : 1.0f;
  double worst = 0;
  for (int64_t i = 0; i < k; ++i) {
    const float level = std::clamp(std::nearbyint(row[i] / *scale), -127.0f, 127.0f);
    out[i] = static_cast<int8_t>(level);
    worst = std::max(worst, std::abs(static_cast<double>(level) * *scale - row[i]));
  }
  return top > 0 ? worst / top : 0;
}

void dequantize_int8(const std::byte* row, const float* scale, int64_t k, float* to) {
  const auto* from = reinterpret_cast<const int8_t*>(row);
  for (int64_t i = 0; i < k; ++i) to[i] = static_cast<float>(from[i]) * *scale;
}

} // namespace

extern const WeightFormat kFormatInt8;
const WeightFormat kFormatInt8 = {
    .name = "int8",
    .text = "8-bit integers with one f32 scale per row",
    .element = DType::i8,
    .block = 1,
    .block_bytes = 1,
    .arithmetics = kArithmeticF32 | kArithmeticBf16 | kArithmeticInt8,
    .quantize = quantize_int8,
    .dequantize = dequantize_int8,
    .to_lane = nullptr,
    .from_lane = nullptr,
    .table_width = [](int64_t) { return int64_t{1}; },
    // 127 times the rounded scale of a larger number may be infinite.
    .largest = 3e38f,
};

} // namespace dllm
