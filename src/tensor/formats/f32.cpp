// f32: every number is stored as one float.

#include "tensor/weight_format.h"

#include <cstring>

namespace dllm {
namespace {

double quantize_f32(const float* row, int64_t k, std::byte* to, float*) {
  std::memcpy(to, row, static_cast<size_t>(k) * sizeof(float));
  return 0;
}

void dequantize_f32(const std::byte* row, const float*, int64_t k, float* to) {
  std::memcpy(to, row, static_cast<size_t>(k) * sizeof(float));
}

} // namespace

extern const WeightFormat kFormatF32;
const WeightFormat kFormatF32 = {
    .name = "f32",
    .text = "32-bit floats",
    .element = DType::f32,
    .block = 1,
    .block_bytes = 4,
    .arithmetics = kArithmeticF32 | kArithmeticBf16,
    .quantize = quantize_f32,
    .dequantize = dequantize_f32,
    .to_lane = nullptr,
    .from_lane = nullptr,
};

} // namespace dllm
