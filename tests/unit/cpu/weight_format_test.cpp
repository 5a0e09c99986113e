// Products with weights in blocks: the bits of the f32 product with the same numbers, on every
// instruction set.

#include "base/threads/parallel.h"
#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"
#include "tensor/weight_format.h"
#include "unit/cpu/kernels/simd_targets.h"
#include "unit/cpu/uniform_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace dllm::cpu {
namespace {

std::vector<const WeightFormat*> block_formats() {
  std::vector<const WeightFormat*> found;
  for (const WeightFormat* format : weight_formats()) {
    if (format->is_blocks()) found.push_back(format);
  }
  return found;
}

struct Blocks {
  const WeightFormat& format;
  int64_t n, k;
  std::vector<std::byte> plain, packed;
  std::vector<float> numbers, panels; // what the blocks stand for, plain and packed

  Blocks(const WeightFormat& own, int64_t rows, int64_t columns)
      : format(own), n(rows), k((columns + own.block - 1) / own.block * own.block) {
    numbers = uniform_numbers(n * k, 7);
    plain.resize(static_cast<size_t>(n * format.row_bytes(k)));
    for (int64_t r = 0; r < n; ++r) {
      std::byte* to = plain.data() + r * format.row_bytes(k);
      format.quantize(numbers.data() + r * k, k, to, nullptr);
      format.dequantize(to, nullptr, k, numbers.data() + r * k);
    }
    packed.resize(static_cast<size_t>(packed_bytes(format, n, k)));
    pack(format, plain.data(), n, k, packed.data(), nullptr);
    panels.resize(static_cast<size_t>(packed_bytes(n, k, DType::f32)) / 4);
    pack(DType::f32, numbers.data(), k, n, k, panels.data(), nullptr);
  }

  Gemm gemm(const std::vector<float>& x, std::vector<float>& y, int64_t m, bool blocks) const {
    Gemm g;
    g.a = x.data(), g.a_stride = k, g.c = y.data(), g.c_stride = n;
    g.m = m, g.n = n, g.k = k;
    if (blocks)
      g.b = packed.data(), g.b_format = &format;
    else
      g.b = panels.data();
    return g;
  }
};

bool equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(BlockGemm, HasTheBitsOfTheF32ProductOnEveryTarget) {
  for (const WeightFormat* format : block_formats()) {
    ASSERT_TRUE(gemm_reads(*format)) << format->name << " has no lane loader";
    for (const auto& [n, columns] :
         {std::pair<int64_t, int64_t>{1, 32}, {33, 64}, {150, 96}, {288, 32}, {40, 6400}}) {
      const Blocks w(*format, n, columns); // rounded up to whole blocks
      const int64_t k = w.k;
      for (int64_t m : {1, 2, 3, 4, 5, 7, 8, 9, 17, 25}) {
        const std::vector<float> x = uniform_numbers(m * k, 11);
        for_each_simd_target([&, n = n, k = k](const char* target) {
          std::vector<float> y(static_cast<size_t>(m * n), NAN), expected = y;
          gemm_serial(w.gemm(x, expected, m, false));
          gemm_serial(w.gemm(x, y, m, true));
          EXPECT_TRUE(equal_bits(y, expected))
              << target << ' ' << format->name << ' ' << m << ' ' << n << ' ' << k;
        });
      }
    }
  }
}

TEST(BlockGemm, ThreadsChangeNothing) {
  for (const WeightFormat* format : block_formats()) {
    const Blocks w(*format, 630, 160);
    const std::vector<float> x = uniform_numbers(64 * w.k, 13);
    std::vector<float> expected(static_cast<size_t>(64 * w.n));
    gemm_serial(w.gemm(x, expected, 64, false));
    for (int threads : {1, 2, 4}) {
      ThreadPool pool(threads);
      std::vector<float> y(expected.size(), NAN);
      gemm_parallel(w.gemm(x, y, 64, true), &pool);
      EXPECT_TRUE(equal_bits(y, expected)) << format->name << ' ' << threads << " threads";
    }
  }
}

TEST(BlockPanels, UnpackGivesTheSameBytes) {
  for (const WeightFormat* format : block_formats()) {
    const Blocks w(*format, 37, 96);
    std::vector<std::byte> back(w.plain.size());
    unpack(*format, w.packed.data(), w.n, w.k, back.data(), nullptr);
    EXPECT_EQ(back, w.plain) << format->name;
    std::vector<float> row(static_cast<size_t>(w.k));
    for (const int64_t r : {int64_t{0}, int64_t{15}, int64_t{16}, int64_t{36}}) {
      packed_row(*format, w.packed.data(), w.k, r, row.data());
      EXPECT_TRUE(equal_bits(row, {w.numbers.begin() + r * w.k, w.numbers.begin() + (r + 1) * w.k}))
          << format->name << " row " << r;
    }
  }
}

} // namespace
} // namespace dllm::cpu
