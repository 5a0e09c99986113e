// Block formats of ggml to f32. In every format a block holds small integers and one or two f16
// scales; the K formats cut 256 numbers into sub-blocks whose own scales are integers again
// (layouts: ggml-common.h, "block_*"). Products are rounded in the order the names below show,
// which is the order of PyPI gguf: results are equal bit for bit.
#include "ckpt/gguf.h"

#include <cstring>

namespace dllm::ckpt {

namespace {

using Byte = uint8_t;

float half_at(const Byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return f16_to_f32(bits);
}

float q(int value) {
  return static_cast<float>(value);
}

// 32 numbers: low nibbles are the first 16, high nibbles the last 16.

void q4_0(const Byte* block, float* y) {
  const float d = half_at(block);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * q((block[2 + i] & 15) - 8);
    y[i + 16] = d * q((block[2 + i] >> 4) - 8);
  }
}

void q4_1(const Byte* block, float* y) {
  const float d = half_at(block), m = half_at(block + 2);
  for (int i = 0; i < 16; ++i) {
    y[i] = d * q(block[4 + i] & 15) + m;
    y[i + 16] = d * q(block[4 + i] >> 4) + m;
  }
}

// The fifth bits of all 32 are in one word, bit i for number i.
void fifth_bits(const Byte* high, const Byte* low, int* values) {
  uint32_t word;
  std::memcpy(&word, high, sizeof word);
  for (int i = 0; i < 16; ++i) {
    values[i] = (low[i] & 15) | static_cast<int>(word >> i & 1) << 4;
    values[i + 16] = (low[i] >> 4) | static_cast<int>(word >> (i + 16) & 1) << 4;
  }
}

void q5_0(const Byte* block, float* y) {
  const float d = half_at(block);
  int values[32];
  fifth_bits(block + 2, block + 6, values);
  for (int i = 0; i < 32; ++i) y[i] = d * q(values[i] - 16);
}

void q5_1(const Byte* block, float* y) {
  const float d = half_at(block), m = half_at(block + 2);
  int values[32];
  fifth_bits(block + 4, block + 8, values);
  for (int i = 0; i < 32; ++i) y[i] = d * q(values[i]) + m;
}

void q8_0(const Byte* block, float* y) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) y[i] = d * q(static_cast<int8_t>(block[2 + i]));
}

// scales[16] (4 bits scale, 4 bits minimum), two bits of 256 numbers in 64 bytes, d, dmin.
void q2_k(const Byte* block, float* y) {
  const Byte* bits = block + 16;
  const float d = half_at(block + 80), dmin = half_at(block + 82);
  for (int sub = 0; sub < 16; ++sub) { // 16 numbers each; 8 sub-blocks share 32 bytes
    const float scale = d * q(block[sub] & 15), minimum = dmin * q(block[sub] >> 4);
    const Byte* from = bits + sub / 8 * 32 + sub % 2 * 16;
    const int shift = sub % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) y[sub * 16 + i] = scale * q(from[i] >> shift & 3) - minimum;
  }
}

// hmask[32], two bits in 64 bytes, 16 scales of 6 bits in 12 bytes, d. A missing mask bit
// subtracts 4.
void q3_k(const Byte* block, float* y) {
  const Byte *mask = block, *bits = block + 32, *packed = block + 96;
  const float d = half_at(block + 108);
  for (int sub = 0; sub < 16; ++sub) {
    const int low = sub < 8 ? packed[sub] & 15 : packed[sub - 8] >> 4;
    const int high = packed[8 + sub % 4] >> (sub / 4 * 2) & 3;
    const float scale = d * q((low | high << 4) - 32);
    const Byte* from = bits + sub / 8 * 32 + sub % 2 * 16;
    const Byte* flags = mask + sub % 2 * 16;
    const int shift = sub % 8 / 2 * 2;
    for (int i = 0; i < 16; ++i) {
      const int offset = flags[i] >> (sub / 2) & 1 ? 0 : 4;
      y[sub * 16 + i] = scale * q((from[i] >> shift & 3) - offset);
    }
  }
}

// 8 scales and 8 minimums of 6 bits in 12 bytes: the last four keep their upper two bits above the
// first eight.
void six_bits(const Byte* packed, int sub, int* scale, int* minimum) {
  if (sub < 4) {
    *scale = packed[sub] & 63;
    *minimum = packed[sub + 4] & 63;
    return;
  }
  *scale = (packed[sub + 4] & 15) | packed[sub - 4] >> 6 << 4;
  *minimum = packed[sub + 4] >> 4 | packed[sub] >> 6 << 4;
}

// d, dmin, scales[12], (q5_k: fifth bits, 32 bytes, bit `sub` of byte i,) nibbles in 128 bytes.
void k_with_minimum(const Byte* block, const Byte* fifth, const Byte* nibbles, float* y) {
  const float d = half_at(block), dmin = half_at(block + 2);
  for (int sub = 0; sub < 8; ++sub) { // 32 numbers each; two sub-blocks share 32 bytes
    int scale_bits, minimum_bits;
    six_bits(block + 4, sub, &scale_bits, &minimum_bits);
    const float scale = d * q(scale_bits), minimum = dmin * q(minimum_bits);
    const Byte* from = nibbles + sub / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      int value = from[i] >> (sub % 2 * 4) & 15;
      if (fifth != nullptr) value |= (fifth[i] >> sub & 1) << 4;
      y[sub * 32 + i] = scale * q(value) - minimum;
    }
  }
}

void q4_k(const Byte* block, float* y) {
  k_with_minimum(block, nullptr, block + 16, y);
}
void q5_k(const Byte* block, float* y) {
  k_with_minimum(block, block + 16, block + 48, y);
}

// Low nibbles in 128 bytes, upper two bits in 64, 16 signed scales, d. Halves of 128 numbers are
// stored apart.
void q6_k(const Byte* block, float* y) {
  const float d = half_at(block + 208);
  for (int sub = 0; sub < 16; ++sub) {
    const int half = sub / 8, part = sub % 8 / 2,
              column = sub % 2 * 16; // part: 32 numbers of the half
    const Byte* low = block + half * 64 + part % 2 * 32 + column;
    const Byte* high = block + 128 + half * 32 + column;
    const float scale = d * q(static_cast<int8_t>(block[192 + sub]));
    for (int i = 0; i < 16; ++i) {
      const int value = (low[i] >> (part / 2 * 4) & 15) | (high[i] >> (part * 2) & 3) << 4;
      y[sub * 16 + i] = scale * q(value - 32);
    }
  }
}

using BlockFn = void (*)(const Byte* block, float* y);

BlockFn block_function(GgmlType type) {
  switch (type) {
  case GgmlType::q4_0: return q4_0;
  case GgmlType::q4_1: return q4_1;
  case GgmlType::q5_0: return q5_0;
  case GgmlType::q5_1: return q5_1;
  case GgmlType::q8_0: return q8_0;
  case GgmlType::q2_k: return q2_k;
  case GgmlType::q3_k: return q3_k;
  case GgmlType::q4_k: return q4_k;
  case GgmlType::q5_k: return q5_k;
  case GgmlType::q6_k: return q6_k;
  default: return nullptr;
  }
}

template <class T, class Widen>
void widen(const std::byte* src, float* dst, int64_t count, Widen to_f32) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, src + i * static_cast<int64_t>(sizeof(T)), sizeof value);
    dst[i] = to_f32(value);
  }
}

} // namespace

void dequantize_blocks(uint32_t type, const std::byte* src, float* dst, int64_t count) {
  const auto cast = [](auto value) { return static_cast<float>(value); };
  switch (static_cast<GgmlType>(type)) {
  case GgmlType::f32: std::memcpy(dst, src, static_cast<size_t>(count) * sizeof(float)); return;
  case GgmlType::f16: return widen<uint16_t>(src, dst, count, f16_to_f32);
  case GgmlType::bf16: return widen<uint16_t>(src, dst, count, bf16_to_f32);
  case GgmlType::f64: return widen<double>(src, dst, count, cast);
  case GgmlType::i8: return widen<int8_t>(src, dst, count, cast);
  case GgmlType::i32: return widen<int32_t>(src, dst, count, cast);
  case GgmlType::i64: return widen<int64_t>(src, dst, count, cast);
  default: break;
  }
  const BlockFn block = block_function(static_cast<GgmlType>(type));
  const GgmlTypeInfo& info = *ggml_type_info(type);
  const auto* from = reinterpret_cast<const Byte*>(src);
  for (int64_t i = 0; i < count; i += info.block, from += info.bytes) block(from, dst + i);
}

// Block sizes of the ggml types (ggml.h, ggml-common.h; checked against GGML_QUANT_SIZES of PyPI
// gguf).

namespace {

struct GgmlRow {
  uint32_t number;
  GgmlTypeInfo info;
};

constexpr GgmlRow kGgmlTypes[] = {
    {0, {"F32", 1, 4, true}},          {1, {"F16", 1, 2, true}},
    {2, {"Q4_0", 32, 18, true}},       {3, {"Q4_1", 32, 20, true}},
    {6, {"Q5_0", 32, 22, true}},       {7, {"Q5_1", 32, 24, true}},
    {8, {"Q8_0", 32, 34, true}},       {10, {"Q2_K", 256, 84, true}},
    {11, {"Q3_K", 256, 110, true}},    {12, {"Q4_K", 256, 144, true}},
    {13, {"Q5_K", 256, 176, true}},    {14, {"Q6_K", 256, 210, true}},
    {15, {"Q8_K", 256, 292, false}},   {16, {"IQ2_XXS", 256, 66, false}},
    {17, {"IQ2_XS", 256, 74, false}},  {18, {"IQ3_XXS", 256, 98, false}},
    {19, {"IQ1_S", 256, 50, false}},   {20, {"IQ4_NL", 32, 18, false}},
    {21, {"IQ3_S", 256, 110, false}},  {22, {"IQ2_S", 256, 82, false}},
    {23, {"IQ4_XS", 256, 136, false}}, {24, {"I8", 1, 1, true}},
    {25, {"I16", 1, 2, false}},        {26, {"I32", 1, 4, true}},
    {27, {"I64", 1, 8, true}},         {28, {"F64", 1, 8, true}},
    {29, {"IQ1_M", 256, 56, false}},   {30, {"BF16", 1, 2, true}},
    {34, {"TQ1_0", 256, 54, false}},   {35, {"TQ2_0", 256, 66, false}},
    {39, {"MXFP4", 32, 17, false}}};

} // namespace

const GgmlTypeInfo* ggml_type_info(uint32_t type) {
  for (const GgmlRow& row : kGgmlTypes) {
    if (row.number == type) return &row.info;
  }
  return nullptr;
}

} // namespace dllm::ckpt
