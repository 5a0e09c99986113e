#include "tensor/weight_format.h"

#include "base/error.h"
#include "base/named_table.h"

#include <algorithm>
#include <string>

namespace dllm {

// One format per file in formats/.
extern const WeightFormat kFormatF32, kFormatBf16, kFormatF16, kFormatInt8, kFormatQ8_0,
    kFormatQ4_0, kFormatQ4_1, kFormatQ5_0, kFormatQ5_1, kFormatQ4_K, kFormatQ5_K, kFormatQ6_K,
    kFormatIq4Nl, kFormatMxfp4, kFormatNf4, kFormatFp4;

namespace {

const WeightFormat* const kWeightFormats[] = {
    &kFormatF32,   &kFormatBf16,  &kFormatF16,  &kFormatInt8, &kFormatQ8_0, &kFormatQ4_0,
    &kFormatQ4_1,  &kFormatQ5_0,  &kFormatQ5_1, &kFormatQ4_K, &kFormatQ5_K, &kFormatQ6_K,
    &kFormatIq4Nl, &kFormatMxfp4, &kFormatNf4,  &kFormatFp4,
};

} // namespace

std::span<const WeightFormat* const> weight_formats() {
  return kWeightFormats;
}

const WeightFormat* find_weight_format(std::string_view name) {
  const WeightFormat* const* found = find_named(kWeightFormats, name, &WeightFormat::name);
  return found == nullptr ? nullptr : *found;
}

const WeightFormat& weight_format(std::string_view name) {
  return *need_named(kWeightFormats, name, &WeightFormat::name, {"weight format"});
}

const WeightFormat& weight_format(DType element) {
  for (const WeightFormat* format : kWeightFormats) {
    if (!format->is_blocks() && format->element == element) return *format;
  }
  fail(Code::invalid_argument, "no weight format holds its numbers as {}", dtype_name(element));
}

namespace {

constexpr struct ArithmeticRow {
  Arithmetic arithmetic;
  const char* name;
} kArithmetics[] = {{kArithmeticF32, "f32"}, {kArithmeticBf16, "bf16"}, {kArithmeticInt8, "int8"}};

} // namespace

const char* arithmetic_name(Arithmetic arithmetic) {
  for (const auto& row : kArithmetics) {
    if (row.arithmetic == arithmetic) return row.name;
  }
  fail(Code::invalid_argument, "no arithmetic has the number {}", static_cast<int>(arithmetic));
}

Arithmetic arithmetic_named(std::string_view name) {
  return need_named(kArithmetics, name, &ArithmeticRow::name, {"arithmetic"}).arithmetic;
}

Shape stored_shape(const WeightFormat& format, const Shape& shape) {
  if (!format.is_blocks()) return shape;
  const int64_t k = shape.dim(-1);
  if (!format.fits(k)) {
    fail(Code::invalid_argument, "rows of {} numbers are not whole blocks of {} ({})", k,
         format.block, format.name);
  }
  return shape.with_dim(-1, format.row_bytes(k));
}

Shape number_shape(const WeightFormat* format, const Shape& stored) {
  return format == nullptr ? stored : stored.with_dim(-1, format->row_numbers(stored.dim(-1)));
}

Shape table_shape(const WeightFormat& format, const Shape& shape) {
  const int64_t width = format.table_width(shape.dim(-1));
  return width == 1 ? shape.without(-1) : shape.with_dim(-1, width);
}

double quantize_matrix(const WeightFormat& format, const float* numbers, int64_t rows, int64_t k,
                       std::byte* to, float* table, const Task* task) {
  constexpr int64_t kPiece = int64_t{1} << 15; // numbers: a few ms of the search for scales
  if (format.quantize_rows != nullptr) return format.quantize_rows(numbers, rows, k, to, table);
  const int64_t width = format.has_table() ? format.table_width(k) : 0;
  const int64_t step = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, k));
  double worst = 0;
  for (int64_t r = 0; r < rows; ++r) {
    if (r % step == 0) check_task(task);
    float* own = table == nullptr ? nullptr : table + r * width;
    worst = std::max(worst, format.quantize(numbers + r * k, k, to + r * format.row_bytes(k), own));
  }
  return worst;
}

int64_t weight_bytes(const WeightFormat& format, const Shape& shape) {
  const bool has_rows = shape.rank() > 0 && shape.dim(-1) > 0;
  const int64_t table = format.has_table() && has_rows ? table_shape(format, shape).count() * 4 : 0;
  return shape.count() / format.block * format.block_bytes + table;
}

} // namespace dllm
