#pragma once
// Describes how the numbers of a weight matrix (rows, k) are stored. A format is one file in
// formats/ and is listed twice in weight_format.cpp. A DType is the element type of an ordinary
// array; a format may pack several numbers into a block of bytes. Each block holds consecutive
// numbers of one row, so rows can be stacked, cut and moved.
//
// A matrix in blocks is an array u8(.., rows, bytes of a row) whose Tensor, or graph::ValueType,
// names the format.

#include "base/task.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace dllm {

// The type to which a matrix product rounds its operands. A format that does not support the
// requested arithmetic is multiplied in f32.
enum Arithmetic : uint32_t { kArithmeticF32 = 1, kArithmeticBf16 = 2, kArithmeticInt8 = 4 };
const char* arithmetic_name(Arithmetic arithmetic); // "f32" "bf16" "int8"
Arithmetic arithmetic_named(std::string_view name); // fails with not_found

// Width of a panel: the rows that a product reads together (cpu/gemm/gemm.h).
inline constexpr int64_t kPanelRows = 16;

struct WeightFormat {
  const char* name; // "q8_0"
  const char* text; // description for people
  DType element;    // element type of the stored array; u8 for blocks of bytes
  int64_t block;    // numbers in a block along k; k is a multiple of it
  int64_t block_bytes;
  uint32_t arithmetics; // set of Arithmetic that products support

  // Stores one row of k numbers. table: receives the row's numbers of the table, null without one.
  // Returns the largest |stored - wanted| of the row divided by the largest |wanted| of the row;
  // with scales in blocks, the largest such ratio of a block. Null if rows need quantize_rows.
  double (*quantize)(const float* row, int64_t k, std::byte* to, float* table);
  void (*dequantize)(const std::byte* row, const float* table, int64_t k, float* to);
  // Copy the block of one row (lane) into and out of a panel block, exactly. A panel block holds
  // one block of each of kPanelRows rows: kPanelRows * block_bytes bytes. Null: the panel is
  // [k][kPanelRows] elements of block_bytes.
  void (*to_lane)(const std::byte* block, int64_t lane, std::byte* panel_block);
  void (*from_lane)(const std::byte* panel_block, int64_t lane, std::byte* block);

  // Returns how many f32 numbers a row of k numbers has in the table next to the matrix. Null:
  // there is no table. The numbers of a row suffice to read it, so rows are stacked, cut and moved
  // with their numbers. A format of elements has one: number = element * scale of its row.
  int64_t (*table_width)(int64_t k) = nullptr;
  // Stores all rows of one matrix, for tables whose numbers depend on several rows; else null.
  double (*quantize_rows)(const float* numbers, int64_t rows, int64_t k, std::byte* to,
                          float* table) = nullptr;

  // Largest number that it stores, rounded.
  float largest = std::numeric_limits<float>::max();

  // The 16 levels of a format that folders of bitsandbytes hold (formats/bits4.h): a number is a
  // level times the f32 scale of its block. Null for other formats.
  const float (*bitsandbytes)[16] = nullptr;

  bool has_table() const { return table_width != nullptr; }
  // Returns whether elements are the numbers themselves, perhaps rounded: f32, f16, bf16.
  bool is_float() const { return block == 1 && !has_table(); }
  bool is_blocks() const { return element == DType::u8; }
  bool fits(int64_t k) const { return k % block == 0; }
  int64_t row_bytes(int64_t k) const { return k / block * block_bytes; }
  int64_t row_numbers(int64_t bytes) const { return bytes / block_bytes * block; }
};

std::span<const WeightFormat* const> weight_formats();
// Return the format with this name. For an unknown name weight_format fails with not_found, and
// find_weight_format returns null.
const WeightFormat& weight_format(std::string_view name);
const WeightFormat* find_weight_format(std::string_view name);
// Returns the format of an element type: f32, bf16, f16, or i8 with a scale per row. Fails with
// invalid_argument for another type.
const WeightFormat& weight_format(DType element);

// Returns the shape of the array that stores numbers of `shape`. REQUIRES: the last extent fits.
Shape stored_shape(const WeightFormat& format, const Shape& shape);
// Returns the shape of the numbers that an array stores. A null format is an ordinary array.
Shape number_shape(const WeightFormat* format, const Shape& stored);
// Returns the shape of the table next to numbers of `shape`. A table of one number for each row has
// no axis for it. REQUIRES: has_table().
Shape table_shape(const WeightFormat& format, const Shape& shape);
// Stores the rows of one matrix with quantize or quantize_rows. The task is checked every 32768
// numbers where rows can be stored one by one.
double quantize_matrix(const WeightFormat& format, const float* numbers, int64_t rows, int64_t k,
                       std::byte* to, float* table, const Task* task = nullptr);
// Returns the bytes of a matrix and its table.
int64_t weight_bytes(const WeightFormat& format, const Shape& shape);

} // namespace dllm
