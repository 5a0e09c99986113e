// The row functions that attention alone uses: chains against gemm_part and exponentials of columns
// against those of a row, bit by bit, on every instruction set.

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"
#include "cpu/kernels/rows/rows.h"
#include "unit/cpu/kernels/simd_targets.h"
#include "unit/cpu/uniform_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace dllm::cpu {
namespace {

struct ChainSizes {
  int64_t rows, columns, k;
};

TEST(Chains, HaveTheBitsOfGemm) {
  for_each_simd_target([&](const char* target) {
    for (const auto& [m, n, k] : {ChainSizes{64, 32, 64},
                                  {63, 32, 80},
                                  {8, 16, 3},
                                  {7, 48, 5},
                                  {1, 16, 1},
                                  {32, 80, 64},
                                  {13, 64, 17}}) {
      for (const bool transposed : {false, true}) {
        const std::vector<float> a = uniform_numbers(m * k, 1), b = uniform_numbers(n * k, 2),
                                 c = uniform_numbers(m * n, 3);
        std::vector<std::byte> panels(static_cast<size_t>(packed_bytes(n, k, DType::f32)));
        pack(DType::f32, b.data(), k, n, k, panels.data(), nullptr);
        std::vector<const std::byte*> ahead;
        for (size_t i = 0; i < 40; ++i) ahead.push_back(panels.data());
        for (const bool load : {false, true}) {
          std::vector<float> expected = c, got = c;
          Gemm gemm;
          gemm.a = a.data(), gemm.b = panels.data(), gemm.c = expected.data();
          gemm.a_stride = transposed ? 1 : k, gemm.a_step = transposed ? m : 1;
          gemm.c_stride = n, gemm.m = m, gemm.n = n, gemm.k = k;
          gemm.accumulate = load;
          gemm_serial(gemm);
          for (const int64_t lines : {0, 3, 40}) {
            got = c;
            rows().chains({a.data(),
                           gemm.a_stride,
                           gemm.a_step,
                           reinterpret_cast<const float*>(panels.data()),
                           got.data(),
                           n,
                           m,
                           n,
                           k,
                           load,
                           {ahead.data(), lines, 200}});
            EXPECT_TRUE(same_row_bits(got, expected))
                << target << ' ' << m << ' ' << n << ' ' << k << ' ' << transposed << load << lines;
          }
        }
      }
    }
  });
}

// Exponents of 0 and below, and what is no number.
TEST(ColumnExp, HasTheBitsOfARow) {
  constexpr int64_t kColumns = 16, kHeight = 64;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float chosen[] = {0.0f, -0.0f, -1e-30f, -87.33f, -87.3365f, -87.34f, -1e30f, -kInfinity};
  for_each_simd_target([&](const char* target) {
    std::vector<float> x = uniform_numbers(kColumns * kHeight, 5), sums(kColumns, 0.25f);
    const std::vector<float> shift(kColumns, 0.5f);
    for (size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 0 ? x[i] : 300.0f * (x[i] - 0.5f);
    for (size_t i = 0; i < std::size(chosen); ++i) x[5 * kColumns + i] = chosen[i];
    x[7 * kColumns + 15] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> given = x;
    rows().column_exp(x.data(), 1.0f, shift.data(), kHeight, kColumns, kColumns, sums.data());
    for (int64_t c = 0; c < kColumns; ++c) {
      std::vector<float> column, made(kHeight);
      for (int64_t i = 0; i < kHeight; ++i) column.push_back(given[i * kColumns + c]);
      const float sum = rows().exp_sum(column.data(), 1.0f, 0.5f, kHeight, made.data());
      for (int64_t i = 0; i < kHeight; ++i) {
        const float got = x[i * kColumns + c];
        EXPECT_TRUE(got == made[i] || (std::isnan(got) && std::isnan(made[i])))
            << target << ' ' << column[i] << ' ' << got << ' ' << made[i];
      }
      EXPECT_TRUE(sums[c] == 0.25f + sum || std::isnan(sum)) << target << ' ' << c;
    }
    EXPECT_TRUE(std::isnan(sums[15]));
  });
}

} // namespace
} // namespace dllm::cpu
