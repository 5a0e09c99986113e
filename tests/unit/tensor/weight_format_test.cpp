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

// Largest error over the largest number: half a step. q8_0 also rounds its scale to 11 bits, which moves the number at
// the top by 2^-11.
TEST(WeightFormat, StoresWithinItsStep) {
  const int64_t k = 96;
  const std::vector<float> row = format_numbers(k);
  for (const WeightFormat* format : weight_formats()) {
    const std::string name = format->name;
    const double bound = name == "f32"    ? 0
                         : name == "bf16" ? 1.0 / 512
                         : name == "f16"  ? 1.0 / 4096
                                          : 0.5 / 127 + 1.0 / 2048;
    std::vector<std::byte> stored(static_cast<size_t>(format->row_bytes(k)));
    float scale = 1;
    const double error = format->quantize(row.data(), k, stored.data(), &scale);
    EXPECT_LE(error, bound) << name;
    std::vector<float> back(row.size());
    format->dequantize(stored.data(), scale, k, back.data());
    for (size_t i = 0; i < row.size(); ++i)
      EXPECT_NEAR(back[i], row[i], 0.5 * bound + 1e-12) << name << ' ' << i;
    // Storing what was stored changes nothing.
    std::vector<std::byte> again(stored.size());
    float same = 1;
    format->quantize(back.data(), k, again.data(), &same);
    std::vector<float> twice(row.size());
    format->dequantize(again.data(), same, k, twice.data());
    for (size_t i = 0; i < row.size(); ++i)
      EXPECT_NEAR(twice[i], back[i], bound * 0.01) << name << ' ' << i;
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
  const std::vector<float> row(64, 0.0f);
  for (const WeightFormat* format : weight_formats()) {
    std::vector<std::byte> stored(static_cast<size_t>(format->row_bytes(64)));
    float scale = 1;
    EXPECT_EQ(format->quantize(row.data(), 64, stored.data(), &scale), 0) << format->name;
    std::vector<float> back(64, 1.0f);
    format->dequantize(stored.data(), scale, 64, back.data());
    for (const float x : back) EXPECT_EQ(x, 0.0f) << format->name;
  }
}

} // namespace
} // namespace dllm
