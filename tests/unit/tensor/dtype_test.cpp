#include "tensor/dtype.h"

#include "base/error.h"
#include "unit/test_files.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace dllm {
namespace {

using test::expect_error;

TEST(DType, NamesNumbersAndSizes) {
  for (int32_t number = 1; number <= 9; ++number) {
    const DType type = dtype_from_number(number);
    EXPECT_EQ(dtype_from_name(dtype_name(type)), type);
    EXPECT_GT(dtype_size(type), 0);
  }
  EXPECT_EQ(dtype_size(DType::bf16), 2);
  EXPECT_EQ(dtype_size(DType::i64), 8);
  EXPECT_TRUE(is_float(DType::f16));
  EXPECT_FALSE(is_float(DType::u32));
  expect_error(Code::not_found, "there is no element type named \"f8\"",
               [] { dtype_from_name("f8"); });
  expect_error(Code::invalid_argument, "10 is not an element type", [] { dtype_from_number(10); });
  expect_error(Code::invalid_argument, "0 is not an element type", [] { dtype_from_number(0); });
}

// The value a half stands for, by the definition of the format.
double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return exponent == 0 ? sign * std::ldexp(mantissa, -24)
                       : sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(F16, All65536ValuesRoundTrip) {
  for (uint32_t word = 0; word < 65536; ++word) {
    const auto bits = static_cast<uint16_t>(word);
    const float value = f16_to_f32(bits);
    const double wanted = half_value(bits);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(value)) << word;
      ASSERT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << word;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), wanted) << word;
    ASSERT_EQ(std::signbit(value), std::signbit(wanted)) << word;
    ASSERT_EQ(f32_to_f16(value), bits) << word;
  }
}

TEST(F16, RoundsToNearestEvenAtEveryMidpoint) {
  for (uint16_t bits = 0; bits < 0x7BFF; ++bits) { // positive finite pairs
    const float low = f16_to_f32(bits), high = f16_to_f32(static_cast<uint16_t>(bits + 1));
    const float middle = (low + high) / 2; // exact in f32
    const uint16_t even = bits & 1 ? static_cast<uint16_t>(bits + 1) : bits;
    ASSERT_EQ(f32_to_f16(middle), even) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, high)), bits + 1) << bits;
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000) << bits;
  }
  EXPECT_EQ(f32_to_f16(65519.996f), 0x7BFF);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7C00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::max()), 0x7C00);
  EXPECT_EQ(f32_to_f16(-INFINITY), 0xFC00);
}

TEST(BF16, All65536ValuesRoundTripAndMidpointsGoToEven) {
  for (uint32_t word = 0; word < 65536; ++word) {
    const auto bits = static_cast<uint16_t>(word);
    const float value = bf16_to_f32(bits);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value)))) << word;
      continue;
    }
    ASSERT_EQ(f32_to_bf16(value), bits) << word;
    if ((bits & 0x7FFF) >= 0x7F80) continue;
    const uint32_t middle = word << 16 | 0x8000u;
    const auto even = static_cast<uint16_t>(bits + (bits & 1));
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle)), even) << word;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle - 1)), bits) << word;
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(middle + 1)), bits + 1) << word;
  }
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001u)))));
}

TEST(Convert, EveryPairOfTypesKeepsSmallIntegers) {
  const std::vector<float> wanted{0, 1, 2, 100, 127};
  for (int32_t a = 1; a <= 9; ++a) {
    for (int32_t b = 1; b <= 9; ++b) {
      const auto from = static_cast<DType>(a), to = static_cast<DType>(b);
      std::vector<std::byte> first(64), second(64);
      std::vector<float> back(wanted.size());
      const auto count = static_cast<int64_t>(wanted.size());
      convert(DType::f32, wanted.data(), from, first.data(), count);
      convert(from, first.data(), to, second.data(), count);
      convert(to, second.data(), DType::f32, back.data(), count);
      EXPECT_EQ(back, wanted) << dtype_name(from) << " to " << dtype_name(to);
    }
  }
}

TEST(Convert, FloatsTruncateAndSixtyFourBitsStay) {
  const std::vector<float> floats{-1.9f, 1.9f, -0.5f};
  std::vector<int32_t> whole(3);
  convert(DType::f32, floats.data(), DType::i32, whole.data(), 3);
  EXPECT_EQ(whole, (std::vector<int32_t>{-1, 1, 0}));
  const std::vector<int64_t> large{INT64_MAX, INT64_MIN, 3};
  std::vector<int64_t> same(3);
  convert(DType::i64, large.data(), DType::i64, same.data(), 3);
  EXPECT_EQ(same, large);
  const std::vector<int64_t> exact{(int64_t{1} << 53) + 1, 5};
  std::vector<int32_t> low(1);
  convert(DType::i64, &exact[1], DType::i32, low.data(), 1);
  EXPECT_EQ(low[0], 5);
}

TEST(Convert, OutOfRangeFloatsAreClampedNotUndefined) {
  const std::vector<float> wild{1e30f, -1e30f, NAN, INFINITY};
  std::vector<int32_t> i32(4);
  convert(DType::f32, wild.data(), DType::i32, i32.data(), 4);
  EXPECT_EQ(i32, (std::vector<int32_t>{INT32_MAX, INT32_MIN, 0, INT32_MAX}));
  std::vector<uint8_t> u8(4);
  convert(DType::f32, wild.data(), DType::u8, u8.data(), 4);
  EXPECT_EQ(u8, (std::vector<uint8_t>{255, 0, 0, 255}));
  std::vector<int64_t> i64(4);
  convert(DType::f32, wild.data(), DType::i64, i64.data(), 4);
  EXPECT_EQ(i64, (std::vector<int64_t>{INT64_MAX, INT64_MIN, 0, INT64_MAX}));
}

} // namespace
} // namespace dllm
