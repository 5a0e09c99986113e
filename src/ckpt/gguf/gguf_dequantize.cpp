// Converts block types of ggml to f32: the types of the table of weight formats (tensor/formats)
// and three more. A block holds small integers and one or two f16 scales. The K formats cut 256
// numbers into sub-blocks whose scales are integers too (layouts: ggml-common.h, "block_*").
// Products are rounded in the same order as in PyPI gguf, so results are equal bit for bit.
#include "ckpt/gguf/gguf.h"
#include "tensor/formats/levels.h"

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

// Layout: scales[16] (4 bits scale, 4 bits minimum), 2 bits of 256 numbers in 64 bytes, d, dmin.
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

// Layout: hmask[32], 2 bits of 256 numbers in 64 bytes, 16 scales of 6 bits in 12 bytes, d. A mask
// bit of 0 subtracts 4.
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

// A block has d, the upper 2 bits of 8 scales in a word, and their low 4 bits in 4 bytes. Then
// follow 256 indices of 4 bits into the table of iq4_nl.
void iq4_xs(const Byte* block, float* y) {
  const float d = half_at(block);
  uint16_t high;
  std::memcpy(&high, block + 2, sizeof high);
  for (int sub = 0; sub < 8; ++sub) { // 32 numbers each
    const int low = block[4 + sub / 2] >> (sub % 2 * 4) & 15;
    const float scale = d * q((low | (high >> (2 * sub) & 3) << 4) - 32);
    const Byte* from = block + 8 + 16 * sub;
    for (int i = 0; i < 16; ++i) {
      y[32 * sub + i] = scale * q(formats::kIq4Levels[from[i] & 15]);
      y[32 * sub + 16 + i] = scale * q(formats::kIq4Levels[from[i] >> 4]);
    }
  }
}

using BlockFn = void (*)(const Byte* block, float* y);

// Returns the function of a type that is not in the table of weight formats.
BlockFn block_function(GgmlType type) {
  switch (type) {
  case GgmlType::q2_k: return q2_k;
  case GgmlType::q3_k: return q3_k;
  case GgmlType::iq4_xs: return iq4_xs;
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
  if (const WeightFormat* format = ggml_weight_format(type))
    return format->dequantize(src, nullptr, count, dst);
  const BlockFn block = block_function(static_cast<GgmlType>(type));
  const GgmlTypeInfo& info = *ggml_type_info(type);
  const auto* from = reinterpret_cast<const Byte*>(src);
  for (int64_t i = 0; i < count; i += info.block, from += info.bytes) block(from, dst + i);
}

// Block sizes of the ggml types, from ggml.h and ggml-common.h. They agree with GGML_QUANT_SIZES of
// PyPI gguf.

namespace {

struct GgmlRow {
  uint32_t number;
  GgmlTypeInfo info;
};

constexpr GgmlRow kGgmlTypes[] = {
    {0, {"F32", 1, 4, true}},         {1, {"F16", 1, 2, true}},
    {2, {"Q4_0", 32, 18, true}},      {3, {"Q4_1", 32, 20, true}},
    {6, {"Q5_0", 32, 22, true}},      {7, {"Q5_1", 32, 24, true}},
    {8, {"Q8_0", 32, 34, true}},      {10, {"Q2_K", 256, 84, true}},
    {11, {"Q3_K", 256, 110, true}},   {12, {"Q4_K", 256, 144, true}},
    {13, {"Q5_K", 256, 176, true}},   {14, {"Q6_K", 256, 210, true}},
    {15, {"Q8_K", 256, 292, false}},  {16, {"IQ2_XXS", 256, 66, false}},
    {17, {"IQ2_XS", 256, 74, false}}, {18, {"IQ3_XXS", 256, 98, false}},
    {19, {"IQ1_S", 256, 50, false}},  {20, {"IQ4_NL", 32, 18, true}},
    {21, {"IQ3_S", 256, 110, false}}, {22, {"IQ2_S", 256, 82, false}},
    {23, {"IQ4_XS", 256, 136, true}}, {24, {"I8", 1, 1, true}},
    {25, {"I16", 1, 2, false}},       {26, {"I32", 1, 4, true}},
    {27, {"I64", 1, 8, true}},        {28, {"F64", 1, 8, true}},
    {29, {"IQ1_M", 256, 56, false}},  {30, {"BF16", 1, 2, true}},
    {34, {"TQ1_0", 256, 54, false}},  {35, {"TQ2_0", 256, 66, false}},
    {39, {"MXFP4", 32, 17, true}}};

} // namespace

const GgmlTypeInfo* ggml_type_info(uint32_t type) {
  for (const GgmlRow& row : kGgmlTypes) {
    if (row.number == type) return &row.info;
  }
  return nullptr;
}

namespace {

struct FormatRow {
  GgmlType type;
  const char* format; // name in the table of weight formats
  uint32_t file_type; // general.file_type of a file whose matrices have the format
};

constexpr FormatRow kFormats[] = {
    {GgmlType::f32, "f32", 0},     {GgmlType::f16, "f16", 1},    {GgmlType::bf16, "bf16", 32},
    {GgmlType::q4_0, "q4_0", 2},   {GgmlType::q4_1, "q4_1", 3},  {GgmlType::q5_0, "q5_0", 8},
    {GgmlType::q5_1, "q5_1", 9},   {GgmlType::q8_0, "q8_0", 7},  {GgmlType::q4_k, "q4_k", 14},
    {GgmlType::q5_k, "q5_k", 16},  {GgmlType::q6_k, "q6_k", 18}, {GgmlType::iq4_nl, "iq4_nl", 25},
    {GgmlType::mxfp4, "mxfp4", 38}};

const FormatRow* find_row(const WeightFormat& format) {
  for (const FormatRow& row : kFormats) {
    if (std::string_view(format.name) == row.format) return &row;
  }
  return nullptr;
}

} // namespace

const WeightFormat* ggml_weight_format(uint32_t type) {
  for (const FormatRow& row : kFormats) {
    if (static_cast<uint32_t>(row.type) == type) return find_weight_format(row.format);
  }
  return nullptr;
}

std::optional<uint32_t> ggml_type_of(const WeightFormat& format) {
  const FormatRow* row = find_row(format);
  if (row == nullptr) return std::nullopt;
  return static_cast<uint32_t>(row->type);
}

uint32_t gguf_file_type(const WeightFormat& format) {
  const FormatRow* row = find_row(format);
  return row == nullptr ? 0 : row->file_type;
}

} // namespace dllm::ckpt
