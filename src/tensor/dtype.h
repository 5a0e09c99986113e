#pragma once
// Defines the element types, numbered as in the C ABI, and converts between them.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace dllm {

class Task;

enum class DType : int32_t {
  f32 = 1,
  f16 = 2,
  bf16 = 3,
  f64 = 4,
  i32 = 5,
  i64 = 6,
  u8 = 7,
  i8 = 8,
  u32 = 9
};

int64_t dtype_size(DType dtype);
const char* dtype_name(DType dtype);          // "f32"
DType dtype_from_name(std::string_view name); // fails with not_found
DType dtype_from_number(int32_t number);      // fails with invalid_argument
bool is_float(DType dtype);

// bf16 is the upper half of an f32. Conversion rounds to nearest, ties to even, and keeps NaN.
inline float bf16_to_f32(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

inline uint16_t f32_to_bf16(float value) {
  uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  if ((word & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(word >> 16 | 0x40u);
  return static_cast<uint16_t>((word + 0x7FFFu + (word >> 16 & 1u)) >> 16);
}

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);

// Converts `count` elements; integers are converted through double. Floats are truncated to
// integers and clamped to the range of the type; NaN becomes 0. The task is checked every quarter
// million elements. REQUIRES: dst and src do not overlap.
void convert(DType from, const void* src, DType to, void* dst, int64_t count,
             const Task* task = nullptr);

} // namespace dllm
