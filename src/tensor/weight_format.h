#pragma once
// How the numbers of a weight matrix (rows, k) are stored. A table: one format a file in formats/, its name twice
// in weight_format.cpp. A DType is the element of an ordinary array; a format may pack several numbers into a block of
// bytes. Blocks lie along k, so a row is whole blocks and rows can be stacked, cut and moved.
//
// A matrix in blocks is an array u8(.., rows, bytes of a row) whose Tensor, or graph::ValueType, names the format.

#include "tensor/dtype.h"
#include "tensor/tensor.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace dllm {

// Arithmetics of a matrix product: what its operands are rounded to. A format that cannot be multiplied in one of them is
// multiplied in f32.
enum Arithmetic : uint32_t { kArithmeticF32 = 1, kArithmeticBf16 = 2, kArithmeticInt8 = 4 };
const char* arithmetic_name(Arithmetic arithmetic); // "f32" "bf16" "int8"
Arithmetic arithmetic_named(std::string_view name); // fails with not_found

enum class ScalePlace {
  none,      // numbers are stored as they are
  row_array, // number = element * scale of its row; the scales are an array f32(.., rows) of their own
  block,     // inside the block
};

// Rows of a matrix that a product reads together: the width of a panel (cpu/gemm/gemm.h).
inline constexpr int64_t kPanelRows = 16;

struct WeightFormat {
  const char* name; // "q8_0"
  const char* text; // one line for people
  DType element;    // of the array that holds it; u8: blocks of bytes
  int64_t block;    // numbers of a block along k; a legal k is a multiple of it
  int64_t block_bytes;
  ScalePlace scales;
  uint32_t arithmetics; // set of Arithmetic it can be multiplied in

  // One row of k numbers. scale: of the row, for ScalePlace::row_array. Returns the largest |stored - wanted| over the
  // largest |wanted| of the row (block scales: of its block).
  double (*quantize)(const float* row, int64_t k, std::byte* to, float* scale);
  void (*dequantize)(const std::byte* row, float scale, int64_t k, float* to);
  // Panel blocks: `kPanelRows` rows x one block, kPanelRows * block_bytes. Moves the block of one row (its lane) in and
  // out, exactly. Null: the panel is [k][kPanelRows] elements of block_bytes.
  void (*to_lane)(const std::byte* block, int64_t lane, std::byte* panel_block);
  void (*from_lane)(const std::byte* panel_block, int64_t lane, std::byte* block);

  bool is_blocks() const { return element == DType::u8; }
  bool fits(int64_t k) const { return k % block == 0; }
  int64_t row_bytes(int64_t k) const { return k / block * block_bytes; }
  int64_t row_numbers(int64_t bytes) const { return bytes / block_bytes * block; }
};

std::span<const WeightFormat* const> weight_formats();
const WeightFormat& weight_format(std::string_view name);      // fails with not_found
const WeightFormat* find_weight_format(std::string_view name); // or null
// The format of ordinary arrays: f32, bf16, f16; i8 has scales per row. Fails with invalid_argument for others.
const WeightFormat& weight_format(DType element);

// The shape of the array that holds numbers of `shape`. REQUIRES: the last axis fits.
Shape stored_shape(const WeightFormat& format, const Shape& shape);
// The inverse; null: an ordinary array.
Shape number_shape(const WeightFormat* format, const Shape& stored);
// Bytes of a matrix with its scales.
int64_t weight_bytes(const WeightFormat& format, const Shape& shape);

} // namespace dllm
