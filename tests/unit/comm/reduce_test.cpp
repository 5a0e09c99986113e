#include "comm/communicator.h"

#include "base/error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace dllm::comm {
namespace {

template <class T>
std::vector<T> reduced(Reduction reduction, DType dtype, const std::vector<std::vector<T>>& rows) {
  std::vector<const void*> parts;
  for (const auto& row : rows) parts.push_back(row.data());
  std::vector<T> out(rows[0].size());
  reduce(reduction, dtype, parts, out.data(), static_cast<int64_t>(out.size()));
  return out;
}

// (1e8 + 1) - 1e8 is 0 in f32, 1 when the large numbers meet first: the order of the parts is what
// counts.
TEST(Reduce, SumsInTheOrderOfTheParts) {
  using Rows = std::vector<std::vector<float>>;
  EXPECT_EQ(reduced(Reduction::sum, DType::f32, Rows{{1e8f}, {1.0f}, {-1e8f}})[0], 0.0f);
  EXPECT_EQ(reduced(Reduction::sum, DType::f32, Rows{{1e8f}, {-1e8f}, {1.0f}})[0], 1.0f);
  EXPECT_EQ(reduced(Reduction::sum, DType::f32, Rows{{2.5f, -1.0f}}),
            (std::vector<float>{2.5f, -1.0f}));
}

TEST(Reduce, IntegersWrap) {
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(
      reduced(Reduction::sum, DType::i32, std::vector<std::vector<int32_t>>{{kMost, 3}, {1, -5}}),
      (std::vector<int32_t>{std::numeric_limits<int32_t>::min(), -2}));
  EXPECT_EQ(reduced(Reduction::sum, DType::u32,
                    std::vector<std::vector<uint32_t>>{{0xFFFFFFFFu}, {2}})[0],
            1u);
}

TEST(Reduce, MaximumPassesNaNOn) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const auto top =
      reduced(Reduction::max, DType::f32,
              std::vector<std::vector<float>>{{1, kNaN, 3, -2}, {2, 0, kNaN, -3}, {0, 1, 1, -1}});
  EXPECT_EQ(top[0], 2.0f);
  EXPECT_TRUE(std::isnan(top[1]));
  EXPECT_TRUE(std::isnan(top[2]));
  EXPECT_EQ(top[3], -1.0f);
  EXPECT_EQ(reduced(Reduction::max, DType::u32,
                    std::vector<std::vector<uint32_t>>{{1}, {0xFFFFFFFFu}})[0],
            0xFFFFFFFFu);
}

TEST(Reduce, WritesOverTheFirstPart) {
  std::vector<float> first{1, 2}, second{10, 20};
  const std::vector<const void*> parts{first.data(), second.data()};
  reduce(Reduction::sum, DType::f32, parts, first.data(), 2);
  EXPECT_EQ(first, (std::vector<float>{11, 22}));
}

TEST(Reduce, OtherTypesAreRefused) {
  std::vector<uint16_t> numbers(2);
  const std::vector<const void*> parts{numbers.data()};
  EXPECT_THROW(reduce(Reduction::sum, DType::bf16, parts, numbers.data(), 2), Error);
}

} // namespace
} // namespace dllm::comm
