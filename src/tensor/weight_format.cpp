#include "tensor/weight_format.h"

#include "base/error.h"
#include "base/named_table.h"

#include <string>

namespace dllm {

// One format per file in formats/.
extern const WeightFormat kFormatF32, kFormatBf16, kFormatF16, kFormatInt8, kFormatQ8_0,
    kFormatQ4_0, kFormatQ4_1, kFormatQ5_0, kFormatQ5_1, kFormatQ4_K, kFormatQ5_K, kFormatQ6_K,
    kFormatIq4Nl, kFormatMxfp4;

namespace {

const WeightFormat* const kWeightFormats[] = {
    &kFormatF32,  &kFormatBf16, &kFormatF16,   &kFormatInt8,  &kFormatQ8_0,
    &kFormatQ4_0, &kFormatQ4_1, &kFormatQ5_0,  &kFormatQ5_1,  &kFormatQ4_K,
    &kFormatQ5_K, &kFormatQ6_K, &kFormatIq4Nl, &kFormatMxfp4,
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

int64_t weight_bytes(const WeightFormat& format, const Shape& shape) {
  const int64_t numbers = shape.count();
  const int64_t rows = shape.rank() > 0 && shape.dim(-1) > 0 ? numbers / shape.dim(-1) : 0;
  const int64_t scales = format.scales == ScalePlace::row_array ? rows * 4 : 0;
  return numbers / format.block * format.block_bytes + scales;
}

} // namespace dllm
