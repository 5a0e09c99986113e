#include "tensor/weight_format.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace dllm {
namespace {

std::vector<float> format_numbers(int64_t count) {
  std::vector<float> made(static_cast<size_t>(count));
  uint32_t state = 9;
  for (float& x : made) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
  }
  return made;
}

TEST(WeightFormat, NamesAreFound) {
  std::set<std::string> names;
  for (const WeightFormat* format : weight_formats()) {
    EXPECT_TRUE(names.insert(format->name).second) << format->name;
    EXPECT_EQ(&weight_format(format->name), format);
    EXPECT_NE(format->arithmetics & kArithmeticF32, 0u) << format->name;
    EXPECT_EQ(format->to_lane == nullptr, format->from_lane == nullptr) << format->name;
  }
  EXPECT_EQ(&weight_format(DType::i8), &weight_format("int8"));
  EXPECT_THROW(weight_format("q9_9"), Error);
  EXPECT_THROW(weight_format(DType::i32), Error);
}

// Largest error over the largest number of a block. Half a step of even levels; q8_0 also rounds
// its scale to 11 bits, which moves the number at the top by 2^-11. Formats whose scale is fitted
// to all numbers may cut the one at the top.
double step_bound(const std::string& name) {
  const std::pair<const char*, double> bounds[] = {
      {"f32", 0},     {"bf16", 1.0 / 512}, {"f16", 1.0 / 4096}, {"int8", 0.5 / 127 + 1.0 / 2048},
      {"q4_0", 0.13}, {"q4_1", 0.08},      {"q5_0", 0.07},      {"q5_1", 0.04},
      {"q4_k", 0.09}, {"q5_k", 0.05},      {"q6_k", 0.035},     {"q8_0", 0.5 / 127 + 1.0 / 2048},
      {"mxfp4", 0.3}, {"iq4_nl", 0.15},    {"nf4", 0.16},       {"fp4", 0.17}};
  for (const auto& [own, bound] : bounds) {
    if (name == own) return bound;
  }
  ADD_FAILURE() << "no bound for " << name;
  return 0;
}

TEST(WeightFormat, StoresWithinItsStep) {
  const int64_t k = 768;
  const std::vector<float> row = format_numbers(k);
  for (const WeightFormat* format : weight_formats()) {
    const std::string name = format->name;
    const double bound = step_bound(name);
    std::vector<std::byte> stored(static_cast<size_t>(format->row_bytes(k)));
    float scale = 1;
    const double error = format->quantize(row.data(), k, stored.data(), &scale);
    EXPECT_LE(error, bound) << name;
    std::vector<float> back(row.size());
    format->dequantize(stored.data(), &scale, k, back.data());
    for (size_t i = 0; i < row.size(); ++i)
      EXPECT_NEAR(back[i], row[i], 0.5 * bound + 1e-12) << name << ' ' << i;
  }
}

// Plain roundings: storing what was stored changes nothing.
TEST(WeightFormat, StoredNumbersStay) {
  const int64_t k = 768;
  const std::vector<float> row = format_numbers(k);
  for (const char* name : {"f32", "bf16", "f16", "int8", "q8_0"}) {
    const WeightFormat& format = weight_format(name);
    std::vector<std::byte> stored(static_cast<size_t>(format.row_bytes(k))), again = stored;
    float scale = 1, same = 1;
    format.quantize(row.data(), k, stored.data(), &scale);
    std::vector<float> back(row.size()), twice(row.size());
    format.dequantize(stored.data(), &scale, k, back.data());
    format.quantize(back.data(), k, again.data(), &same);
    format.dequantize(again.data(), &same, k, twice.data());
    for (size_t i = 0; i < row.size(); ++i)
      EXPECT_NEAR(twice[i], back[i], step_bound(name) * 0.01) << name << ' ' << i;
  }
}

// Root of the mean squared error over 64 blocks of bell-shaped numbers, next to that of
// ggml_quantize_chunk of llama.cpp (2026-10, without importance weights).
TEST(WeightFormat, RoundsAsWellAsGgml) {
  std::vector<float> numbers(256 * 64);
  uint32_t state = 77;
  for (float& x : numbers) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      state = state * 1664525u + 1013904223u;
      sum += static_cast<double>(state >> 8) / 16777216.0;
    }
    x = static_cast<float>(sum - 2.0);
  }
  const std::pair<const char*, double> ggml[] = {
      {"q4_0", 0.0472978},   {"q4_1", 0.0437236}, {"q5_0", 0.0235926}, {"q5_1", 0.0212739},
      {"q8_0", 0.0029349},   {"q4_k", 0.0398263}, {"q5_k", 0.0203115}, {"q6_k", 0.0098979},
      {"iq4_nl", 0.0430301}, {"mxfp4", 0.0641575}};
  for (const auto& [name, wanted] : ggml) {
    const WeightFormat& format = weight_format(name);
    const auto count = static_cast<int64_t>(numbers.size());
    std::vector<std::byte> stored(static_cast<size_t>(format.row_bytes(count)));
    format.quantize(numbers.data(), count, stored.data(), nullptr);
    std::vector<float> back(numbers.size());
    format.dequantize(stored.data(), nullptr, count, back.data());
    double squares = 0;
    for (size_t i = 0; i < back.size(); ++i) {
      const double rest = static_cast<double>(back[i]) - static_cast<double>(numbers[i]);
      squares += rest * rest;
    }
    const double error = std::sqrt(squares / static_cast<double>(count));
    RecordProperty(name, std::to_string(error));
    EXPECT_LE(error, 1.1 * wanted) << name;
  }
}

// A larger number would be stored as infinity, and check_number_range refuses it.
TEST(WeightFormat, TheLargestNumberIsStored) {
  for (const WeightFormat* format : weight_formats()) {
    const int64_t k = 2 * format->block;
    std::vector<float> row(static_cast<size_t>(k), 0.0f), back(row.size());
    row[1] = format->largest;
    std::vector<std::byte> stored(static_cast<size_t>(format->row_bytes(k)));
    std::vector<float> table(static_cast<size_t>(format->has_table() ? format->table_width(k) : 1));
    quantize_matrix(*format, row.data(), 1, k, stored.data(), table.data());
    format->dequantize(stored.data(), table.data(), k, back.data());
    EXPECT_TRUE(std::isfinite(back[1])) << format->name;
    EXPECT_NEAR(back[1] / format->largest, 1, 0.2) << format->name;
  }
}

TEST(WeightFormat, ShapesOfArrays) {
  const WeightFormat& q8 = weight_format("q8_0");
  EXPECT_EQ(stored_shape(q8, Shape{3, 5, 64}), (Shape{3, 5, 68}));
  EXPECT_EQ(number_shape(&q8, Shape{3, 5, 68}), (Shape{3, 5, 64}));
  EXPECT_EQ(stored_shape(weight_format("int8"), Shape{5, 7}), (Shape{5, 7}));
  EXPECT_EQ(weight_bytes(q8, Shape{10, 64}), 10 * 68);
  EXPECT_EQ(weight_bytes(weight_format("int8"), Shape{10, 64}), 10 * 64 + 40);
  EXPECT_FALSE(q8.fits(33));
  EXPECT_THROW(stored_shape(q8, Shape{2, 33}), Error);
}

TEST(WeightFormat, ZerosStayZeros) {
  const std::vector<float> row(256, 0.0f);
  for (const WeightFormat* format : weight_formats()) {
    std::vector<std::byte> stored(static_cast<size_t>(format->row_bytes(256)));
    float scale = 1;
    EXPECT_EQ(format->quantize(row.data(), 256, stored.data(), &scale), 0) << format->name;
    std::vector<float> back(256, 1.0f);
    format->dequantize(stored.data(), &scale, 256, back.data());
    for (const float x : back) EXPECT_EQ(x, 0.0f) << format->name;
  }
}

} // namespace
} // namespace dllm
