// Products in bf16 and int8: against sums in double, and bit by bit over instruction sets, cuts,
// rows and threads.

#include "base/threads/parallel.h"
#include "cpu/gemm/dot.h"
#include "cpu/gemm/gemm.h"
#include "tensor/weight_format.h"
#include "unit/cpu/kernels/arithmetic_weight.h"
#include "unit/cpu/kernels/simd_targets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace dllm::cpu {
namespace {

struct ArithmeticCase {
  const char* format;
  Arithmetic arithmetic;
};
constexpr ArithmeticCase kCases[] = {{"f32", kArithmeticBf16},
                                     {"bf16", kArithmeticBf16},
                                     {"int8", kArithmeticInt8},
                                     {"q8_0", kArithmeticInt8}};

TEST(Int8Gemm, IsExactOnEveryInstructionSet) {
  for (const char* format : {"int8", "q8_0"}) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1, 32},
                               {33, 64},
                               {150, 96},
                               {288, 32},
                               {40, 6400},
                               {37, 71},
                               {16, 1},
                               {129, 898}}) {
      if (!weight_format(format).fits(k)) continue;
      const ArithmeticWeight w(format, kArithmeticInt8, n, k);
      ASSERT_EQ(w.form.layout, PanelLayout::quads);
      for (int64_t m : {1, 2, 3, 4, 5, 7, 9, 17, 25}) {
        const std::vector<float> x = uniform_numbers(m * k, 11);
        const std::vector<float> expected = int8_oracle(w, x, m);
        for_each_simd_target([&, n = n, k = k](const char* target) {
          for (const DotKernel& kernel : dot_kernels(PanelLayout::quads)) {
            EXPECT_TRUE(same_row_bits(w.product(kernel, x, m), expected))
                << target << ' ' << kernel.name << ' ' << format << ' ' << m << ' ' << n << ' '
                << k;
          }
        });
      }
    }
  }
}

// All numbers as large as they can be: sums of pairs of bytes in 16 bits would saturate.
TEST(Int8Gemm, DoesNotSaturate) {
  constexpr int64_t n = 17, k = 512;
  ArithmeticWeight w("int8", kArithmeticInt8, n, k);
  for (const int8_t level : {int8_t{127}, int8_t{-128}}) {
    std::fill(w.plain.begin(), w.plain.end(), static_cast<std::byte>(level));
    pack(w.form, w.plain.data(), n, k, w.packed.data(), nullptr);
    std::fill(w.scale.begin(), w.scale.end(), 1.0f);
    std::fill(w.bias.begin(), w.bias.end(), 0.0f);
    for (const float sign : {1.0f, -1.0f}) {
      const std::vector<float> x(static_cast<size_t>(3 * k), sign * 127.0f);
      for_each_simd_target([&](const char* target) {
        for (const DotKernel& kernel : dot_kernels(PanelLayout::quads)) {
          for (const float y : w.product(kernel, x, 3))
            ASSERT_EQ(y, sign * 127.0f * level * k) << target << ' ' << kernel.name;
        }
      });
    }
  }
  check_int8_kernel();
}

// The bounds of docs/concepts/engine.md.
TEST(Bf16Gemm, IsNearTheProductOfDoubles) {
  for (const char* format : {"f32", "bf16"}) {
    for (const auto& [n, k] :
         {std::pair<int64_t, int64_t>{33, 64}, {40, 6401}, {37, 71}, {16, 1}}) {
      const ArithmeticWeight w(format, kArithmeticBf16, n, k);
      for (int64_t m : {1, 3, 8, 17}) {
        const std::vector<float> x = uniform_numbers(m * k, 11);
        for_each_simd_target([&, n = n, k = k](const char* target) {
          for (const DotKernel& kernel : dot_kernels(PanelLayout::pairs)) {
            const std::vector<float> y = w.product(kernel, x, m);
            for (int64_t r = 0; r < m; ++r) {
              for (int64_t j = 0; j < n; ++j) {
                double exact = 0, rounded = 0, size = 0;
                for (int64_t i = 0; i < k; ++i) {
                  const double a = x[r * k + i], b = w.numbers[j * k + i];
                  exact += a * b;
                  size += std::abs(a * b);
                  rounded += static_cast<double>(bf16_to_f32(f32_to_bf16(x[r * k + i]))) *
                             bf16_to_f32(f32_to_bf16(w.numbers[j * k + i]));
                }
                const double got = static_cast<double>(y[r * n + j]) - w.bias[j];
                // Sums in f32 of the rounded numbers; each number is within 2^-8 of its own.
                ASSERT_NEAR(got, rounded, 1e-7 * (2 + std::sqrt(k)) * (size + 1))
                    << target << ' ' << kernel.name << ' ' << k;
                ASSERT_NEAR(got, exact, size * std::ldexp(1.01, -7) + 1e-6) << kernel.name;
              }
            }
          }
        });
      }
    }
  }
}

TEST(ArithmeticGemm, RowsDoNotKnowTheirNeighbours) {
  for (const ArithmeticCase& c : kCases) {
    const int64_t k = 160, n = 83, most = 300;
    const ArithmeticWeight w(c.format, c.arithmetic, n, k);
    const std::vector<float> x = uniform_numbers(most * k, 13);
    const std::vector<float> all = w.product(x, most);
    for (int64_t m = 1; m <= most; m = m < 20 ? m + 1 : m + 31) {
      const std::vector<float> part = w.product({x.begin(), x.begin() + m * k}, m);
      EXPECT_TRUE(same_row_bits(part, {all.begin(), all.begin() + m * n})) << c.format << ' ' << m;
    }
  }
}

TEST(ArithmeticGemm, ThreadsAndCutsChangeNothing) {
  for (const ArithmeticCase& c : kCases) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{630, 160}, {77, 2016}}) {
      const ArithmeticWeight w(c.format, c.arithmetic, n, k);
      for (int64_t m : {1, 31, 129}) {
        const std::vector<float> x = uniform_numbers(m * k, 17);
        const std::vector<float> expected = w.product(x, m);
        for (int threads : {1, 2, 4}) {
          ThreadPool pool(threads);
          EXPECT_TRUE(same_row_bits(w.product(x, m, &pool), expected))
              << c.format << ' ' << threads;
        }
        std::vector<float> y(expected.size(), NAN);
        std::vector<std::byte> space;
        const Gemm g = w.gemm(x, y, m, space);
        round_activations(g, m, nullptr);
        for (int64_t row = 0; row < m; row += 13) {
          for (int64_t p = 0; p < panel_count(n); p += 3)
            gemm_part(g, row, std::min(m, row + 13), p, std::min(panel_count(n), p + 3));
        }
        EXPECT_TRUE(same_row_bits(y, expected)) << c.format << " in parts";
      }
    }
  }
}

// More rows than a block of them, more panels than a stripe and chains that are stored in between:
// row by row the same bits.
TEST(ArithmeticGemm, LargeProductsAreThoseOfSingleRows) {
  constexpr ArithmeticCase kAll[] = {{"f32", kArithmeticF32},   {"q8_0", kArithmeticF32},
                                     {"q4_k", kArithmeticF32},  {"bf16", kArithmeticBf16},
                                     {"int8", kArithmeticInt8}, {"q8_0", kArithmeticInt8}};
  for (const ArithmeticCase& c : kAll) {
    const int64_t k = 3328, n = 1072, m = 133;
    const ArithmeticWeight w(c.format, c.arithmetic, n, k);
    const std::vector<float> x = uniform_numbers(m * k, 19);
    const std::vector<float> all = w.product(x, m);
    for (int64_t row : {0, 7, 64, 127, 128, 132}) {
      const std::vector<float> one = w.product({x.begin() + row * k, x.begin() + (row + 1) * k}, 1);
      EXPECT_TRUE(same_row_bits(one, {all.begin() + row * n, all.begin() + (row + 1) * n}))
          << c.format << ' ' << row;
    }
  }
}

// A chain that is cut and gone on with is the same chain.
TEST(Bf16Gemm, ChainsMayBeCut) {
  const int64_t n = 70, k = 100, cut = 64, m = 21; // AMX: whole tiles of 32
  const ArithmeticWeight w("f32", kArithmeticBf16, n, k);
  const std::vector<float> x = uniform_numbers(m * k, 19);
  std::vector<float> whole(static_cast<size_t>(m * n)), parts = whole;
  std::vector<std::byte> space;
  Gemm g = w.gemm(x, whole, m, space);
  g.bias = nullptr;
  gemm_parallel(g, nullptr);
  g.c = parts.data();
  g.b_chain = k;
  g.k = cut;
  gemm_parallel(g, nullptr);
  g.accumulate = true;
  g.a += cut;
  g.b = static_cast<const std::byte*>(g.b) + kPanel * line_bytes(g, cut);
  g.k = k - cut;
  gemm_parallel(g, nullptr);
  EXPECT_TRUE(same_row_bits(parts, whole));
}

TEST(Bf16Gemm, ReadsATransposedA) {
  const int64_t n = 40, k = 531, m = 45;
  const ArithmeticWeight w("f32", kArithmeticBf16, n, k);
  const std::vector<float> x = uniform_numbers(m * k, 23);
  std::vector<float> turned(x.size());
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t i = 0; i < k; ++i) turned[i * m + r] = x[r * k + i];
  }
  std::vector<float> y(static_cast<size_t>(m * n), NAN);
  std::vector<std::byte> space;
  for_each_simd_target([&](const char* target) {
    Gemm g = w.gemm(turned, y, m, space);
    g.a_stride = 1, g.a_step = m;
    ThreadPool pool(2);
    gemm_parallel(g, &pool);
    EXPECT_TRUE(same_row_bits(y, w.product(x, m))) << target;
  });
}

TEST(ArithmeticGemm, PassesNotANumberOn) {
  for (const ArithmeticCase& c : kCases) {
    const int64_t n = 20, k = 64;
    const ArithmeticWeight w(c.format, c.arithmetic, n, k);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x = uniform_numbers(3 * k, 29);
      const std::vector<float> healthy = w.product(x, 3);
      x[k + 40] = bad;
      for_each_simd_target([&](const char* target) {
        const std::vector<float> y = w.product(x, 3);
        for (int64_t j = 0; j < n; ++j) {
          EXPECT_FALSE(std::isfinite(y[n + j])) << target << ' ' << c.format;
          EXPECT_TRUE(std::isfinite(y[j]) && std::isfinite(y[2 * n + j])) << c.format;
        }
      });
      const std::vector<float> zeros(static_cast<size_t>(k), 0.0f), y = w.product(zeros, 1);
      EXPECT_TRUE(same_row_bits(y, w.bias)) << c.format;
    }
  }
}

TEST(ArithmeticPanels, UnpackGivesTheSameBytes) {
  for (const ArithmeticCase& c : kCases) {
    const ArithmeticWeight w(c.format, c.arithmetic, 37, 96);
    if (!w.form.is_exact()) continue;
    std::vector<std::byte> back(w.plain.size());
    unpack(w.form, w.packed.data(), w.n, w.k, back.data(), nullptr);
    EXPECT_EQ(back, w.plain) << c.format;
    if (!w.format.is_blocks()) continue;
    std::vector<float> row(static_cast<size_t>(w.k));
    packed_row(w.form, w.packed.data(), w.k, 36, row.data());
    EXPECT_TRUE(same_row_bits(row, {w.numbers.begin() + 36 * w.k, w.numbers.begin() + 37 * w.k}));
  }
}

TEST(ArithmeticPanels, OtherFormatsKeepTheirs) {
  EXPECT_EQ(panel_form(kArithmeticInt8, DType::f32, nullptr, 64, false).layout,
            PanelLayout::elements);
  EXPECT_EQ(panel_form(kArithmeticInt8, DType::i8, nullptr, 64, true).layout,
            PanelLayout::elements);
  EXPECT_EQ(panel_form(kArithmeticInt8, DType::i8, nullptr, 200'000, false).layout,
            PanelLayout::elements);
  EXPECT_EQ(panel_form(kArithmeticBf16, DType::u8, &weight_format("q8_0"), 64, false).layout,
            PanelLayout::elements);
  EXPECT_EQ(panel_form(kArithmeticBf16, DType::f32, nullptr, 64, true).layout, PanelLayout::pairs);
}

} // namespace
} // namespace dllm::cpu
