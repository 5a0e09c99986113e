#include "base/threads/parallel.h"
#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"
#include "unit/cpu/kernels/simd_targets.h"
#include "unit/cpu/uniform_numbers.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

namespace dllm::cpu {
namespace {

// A weight matrix (n, k) in one storage type, its packed form, and the numbers it stands for.
struct Weights {
  DType dtype;
  int64_t n, k;
  std::vector<std::byte> plain, packed;
  std::vector<float> values, scale, bias;

  Weights(DType type, int64_t rows, int64_t columns) : dtype(type), n(rows), k(columns) {
    values = uniform_numbers(n * k, 7);
    plain.resize(values.size() * static_cast<size_t>(dtype_size(dtype)));
    if (dtype == DType::i8) {
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = std::nearbyint(values[i] * 254.0f);
        plain[i] = static_cast<std::byte>(static_cast<int8_t>(values[i]));
      }
      scale = uniform_numbers(n, 3);
    } else {
      convert(DType::f32, values.data(), dtype, plain.data(), n * k);
      convert(dtype, plain.data(), DType::f32, values.data(), n * k);
    }
    bias = uniform_numbers(n, 5);
    packed.resize(static_cast<size_t>(packed_bytes(n, k, dtype)));
    pack(dtype, plain.data(), k, n, k, packed.data(), nullptr);
  }

  Gemm gemm(const std::vector<float>& x, std::vector<float>& y, int64_t m) const {
    Gemm g;
    g.a = x.data(), g.a_stride = k, g.b = packed.data(), g.b_type = dtype, g.c = y.data(),
    g.c_stride = n;
    g.m = m, g.n = n, g.k = k, g.bias = bias.data();
    g.scale = scale.empty() ? nullptr : scale.data();
    return g;
  }

  // The definition: one chain of std::fma, times scale, plus bias.
  std::vector<float> oracle(const std::vector<float>& x, int64_t m) const {
    std::vector<float> y(static_cast<size_t>(m * n));
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t j = 0; j < n; ++j) {
        float acc = 0;
        for (int64_t i = 0; i < k; ++i) acc = std::fma(x[r * k + i], values[j * k + i], acc);
        if (!scale.empty()) acc *= scale[j];
        y[r * n + j] = acc + bias[j];
      }
    }
    return y;
  }
};

bool same_floats(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::i8};

TEST(Gemm, EqualsTheScalarChainOnEveryTarget) {
  for (DType dtype : kTypes) {
    for (const auto& [n, k] :
         {std::pair<int64_t, int64_t>{1, 1}, {16, 5}, {33, 64}, {150, 77}, {288, 31}}) {
      const Weights w(dtype, n, k);
      for (int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 17, 25}) {
        const std::vector<float> x = uniform_numbers(m * k, 11);
        const std::vector<float> expected = w.oracle(x, m);
        for_each_simd_target([&, n = n, k = k](const char* target) {
          std::vector<float> y(expected.size(), NAN);
          gemm_serial(w.gemm(x, y, m));
          EXPECT_TRUE(same_floats(y, expected))
              << target << ' ' << dtype_name(dtype) << ' ' << m << ' ' << n << ' ' << k;
        });
      }
    }
  }
}

// 64 rows are worth several chunks (gemm.cpp), so the threads do cut them.
TEST(Gemm, RowsDoNotDependOnTheBatchNorThreads) {
  const int64_t most = 64, n = 630, k = 160;
  for (DType dtype : kTypes) {
    const Weights w(dtype, n, k);
    const std::vector<float> x = uniform_numbers(most * k, 13);
    std::vector<float> whole(static_cast<size_t>(most * n));
    gemm_serial(w.gemm(x, whole, most));
    for (int threads : {1, 2, 4}) {
      ThreadPool pool(threads);
      for (int64_t m : {1, 2, 3, 5, 8, 17, 31, 64}) {
        std::vector<float> y(static_cast<size_t>(m * n), NAN);
        gemm_parallel(w.gemm(x, y, m), &pool);
        EXPECT_TRUE(same_floats(y, {whole.begin(), whole.begin() + m * n}))
            << threads << " threads, m " << m;
      }
    }
  }
}

TEST(Gemm, AccumulatingContinuesTheChain) {
  const Weights whole(DType::f32, 50, 40);
  Weights head(DType::f32, 50, 25), tail(DType::f32, 50, 15);
  for (int64_t j = 0; j < 50; ++j) {
    std::copy_n(&whole.values[j * 40], 25, &head.values[j * 25]);
    std::copy_n(&whole.values[j * 40 + 25], 15, &tail.values[j * 15]);
  }
  pack(DType::f32, head.values.data(), 25, 50, 25, head.packed.data(), nullptr);
  pack(DType::f32, tail.values.data(), 15, 50, 15, tail.packed.data(), nullptr);
  const std::vector<float> x = uniform_numbers(9 * 40, 1);
  std::vector<float> expected(9 * 50), y(9 * 50);
  gemm_serial(whole.gemm(x, expected, 9));
  Gemm first = head.gemm(x, y, 9), second = tail.gemm(x, y, 9);
  first.a_stride = second.a_stride = 40;
  first.bias = nullptr;
  second.a += 25;
  second.bias = whole.bias.data();
  second.accumulate = true;
  gemm_serial(first);
  gemm_serial(second);
  EXPECT_TRUE(same_floats(y, expected));
}

TEST(Gemm, ReadsATransposedAInPlace) {
  const Weights w(DType::f32, 50, 40);
  const std::vector<float> x = uniform_numbers(9 * 40, 1);
  std::vector<float> turned(x.size()), expected(9 * 50), y(9 * 50);
  for (int64_t r = 0; r < 9; ++r) {
    for (int64_t i = 0; i < 40; ++i) turned[i * 9 + r] = x[r * 40 + i];
  }
  gemm_serial(w.gemm(x, expected, 9));
  Gemm g = w.gemm(turned, y, 9);
  g.a_stride = 1;
  g.a_step = 9;
  gemm_serial(g);
  EXPECT_TRUE(same_floats(y, expected));
}

TEST(Gemm, LongChainsAreCutExactly) {
  const Weights w(DType::f32, 3, 20000);
  const std::vector<float> x = uniform_numbers(2 * 20000, 17);
  std::vector<float> y(6);
  gemm_serial(w.gemm(x, y, 2));
  EXPECT_TRUE(same_floats(y, w.oracle(x, 2)));
}

TEST(Pack, UnpackIsTheExactInverse) {
  for (DType dtype : kTypes) {
    const Weights w(dtype, 37, 70);
    std::vector<std::byte> back(w.plain.size());
    unpack(dtype, w.packed.data(), 37, 70, back.data(), nullptr);
    EXPECT_EQ(back, w.plain);
  }
}

TEST(Pack, TransposedIsThePackOfTheTranspose) {
  for (DType dtype : kTypes) {
    const Weights w(dtype, 37, 70);
    const auto size = static_cast<size_t>(dtype_size(dtype));
    std::vector<std::byte> transpose(w.plain.size());
    for (size_t i = 0; i < 37; ++i) {
      for (size_t j = 0; j < 70; ++j)
        std::memcpy(&transpose[(j * 37 + i) * size], &w.plain[(i * 70 + j) * size], size);
    }
    ThreadPool pool(2);
    const auto bytes = static_cast<size_t>(packed_bytes(70, 37, dtype));
    std::vector<std::byte> got(bytes), expected(bytes);
    pack_transposed(dtype, w.plain.data(), 70, 70, 37, got.data(), &pool);
    pack(dtype, transpose.data(), 37, 70, 37, expected.data(), nullptr);
    EXPECT_EQ(got, expected);
  }
}

// Whole panels of long rows that lie apart, as attention packs its keys.
TEST(Pack, PutsEveryNumberOfARowIntoItsLine) {
  for (const int64_t k : {4, 66, 128, 260}) {
    const int64_t n = 37, stride = k + 5;
    std::vector<uint32_t> source(static_cast<size_t>(n * stride));
    std::iota(source.begin(), source.end(), 1u);
    std::vector<uint32_t> packed(static_cast<size_t>(packed_bytes(n, k, DType::f32)) / 4, 7u);
    pack(DType::f32, source.data(), stride, n, k, packed.data(), nullptr);
    for (int64_t j = 0; j < panel_count(n) * kPanel; ++j) {
      for (int64_t i = 0; i < k; ++i) {
        const uint32_t expected = j < n ? source[static_cast<size_t>(j * stride + i)] : 0u;
        const int64_t at = (j / kPanel * k + i) * kPanel + j % kPanel;
        ASSERT_EQ(packed[static_cast<size_t>(at)], expected) << "row " << j << ", place " << i;
      }
    }
  }
}

TEST(Gemm, PeakIsAPlausibleNumber) {
  const double peak = measure_peak_flops(nullptr, 1);
  EXPECT_GT(peak, 1e8);
  EXPECT_LT(peak, 1e12);
}

// A product that may be left between its parts: the same bits, and no part of more than some
// multiply-adds a thread.
TEST(Gemm, LooksAtAPauseBetweenParts) {
  class Counts final : public RunPause {
  public:
    void look() override { ++looks; }
    int64_t looks = 0;
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    for (const int threads : {1, 2}) {
      for (const auto& [m, n, k] :
           {std::array<int64_t, 3>{96, 1600, 576}, {1, 4096, 2048}, {7, 33, 5}}) {
        ThreadPool pool(threads);
        const Weights w(dtype, n, k);
        const auto x = uniform_numbers(m * k, 9);
        std::vector<float> whole(static_cast<size_t>(m * n)), parts(whole.size(), -1.0f);
        Counts counts;
        gemm_parallel(w.gemm(x, whole, m), &pool);
        gemm_parallel(w.gemm(x, parts, m), &pool, &counts);
        EXPECT_EQ(std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)), 0);
        const int64_t work = m * n * k / threads; // 6e7 multiply-adds take a few milliseconds
        EXPECT_GE(counts.looks, work / 60000000) << m << " x " << n << " x " << k;
      }
    }
  }
}

} // namespace
} // namespace dllm::cpu
