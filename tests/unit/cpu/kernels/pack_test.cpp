// f32 matrices in panels, number by number, and transposed.

#include "base/threads/parallel.h"
#include "cpu/gemm/gemm.h"
#include "cpu/gemm/pack_vector.h"
#include "unit/cpu/kernels/simd_targets.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace dllm::cpu {
namespace {

// Bits of all kinds: infinities, NaN of every payload, denormals.
std::vector<float> any_numbers(int64_t count) {
  std::vector<float> made(static_cast<size_t>(count));
  uint32_t state = 12345;
  for (float& x : made) {
    state = state * 1664525u + 1013904223u;
    x = std::bit_cast<float>(state ^ state >> 16);
  }
  const float special[] = {std::numeric_limits<float>::infinity(),
                           std::numeric_limits<float>::denorm_min(),
                           -0.0f,
                           std::bit_cast<float>(0x7F800001u),
                           std::bit_cast<float>(0xFFFFFFFFu),
                           std::bit_cast<float>(0x3F808000u),
                           std::bit_cast<float>(0x3F818000u)};
  for (size_t i = 0; i < made.size(); ++i) {
    if (i % 11 == 3) made[i] = special[i / 11 % std::size(special)];
  }
  return made;
}

uint32_t bits_of(float x) {
  return std::bit_cast<uint32_t>(x);
}

constexpr std::pair<int64_t, int64_t> kPackShapes[] = {{1, 1},   {16, 8},    {33, 37},  {48, 40},
                                                       {7, 96},  {530, 66},  {64, 532}, {592, 290},
                                                       {19, 64}, {1040, 48}, {16, 513}};

template <class F> void for_each_packing(const F& body) {
  ThreadPool two(2);
  for (const auto& [out, in] : kPackShapes) {
    const std::vector<float> w = any_numbers(out * in);
    for (const bool transposed : {false, true}) {
      for (const Workers pool : {Workers(), Workers(&two)}) {
        for_each_simd_target([&, out = out, in = in](const char* target) {
          SCOPED_TRACE(testing::Message()
                       << target << ' ' << out << " x " << in << ' ' << transposed);
          body(w, out, in, transposed, pool);
        });
      }
    }
  }
}

TEST(PackVector, PanelsOfF32HoldEveryNumber) {
  for_each_packing([](const std::vector<float>& w, int64_t out, int64_t in, bool transposed,
                      const Workers& pool) {
    const PanelForm form = panel_form(kArithmeticF32, DType::f32, nullptr, in, transposed);
    const int64_t n = transposed ? in : out, k = transposed ? out : in;
    std::vector<float> panels(static_cast<size_t>(form.bytes(out, in) / 4), 7.0f);
    pack(form, w.data(), out, in, panels.data(), pool);
    for (int64_t p = 0; p < panel_count(n); ++p) {
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < kPanel; ++j) {
          const int64_t column = p * kPanel + j;
          const float want = column >= n  ? 0.0f
                             : transposed ? w[i * in + column]
                                          : w[column * in + i];
          ASSERT_EQ(bits_of(panels[(p * k + i) * kPanel + j]), bits_of(want))
              << p << ' ' << i << ' ' << j;
        }
      }
    }
  });
}

TEST(PackVector, PanelsOfPairsHoldEveryNumberRounded) {
  for_each_packing([](const std::vector<float>& w, int64_t out, int64_t in, bool transposed,
                      const Workers& pool) {
    const PanelForm form = panel_form(kArithmeticBf16, DType::f32, nullptr, in, transposed);
    const int64_t n = transposed ? in : out, k = transposed ? out : in, line = (k + 1) / 2 * 2;
    std::vector<uint16_t> panels(static_cast<size_t>(form.bytes(out, in) / 2), uint16_t{7});
    pack(form, w.data(), out, in, panels.data(), pool);
    for (int64_t p = 0; p < panel_count(n); ++p) {
      for (int64_t i = 0; i < line; ++i) {
        for (int64_t j = 0; j < kPanel; ++j) {
          const int64_t column = p * kPanel + j;
          const float number = column >= n || i >= k ? 0.0f
                               : transposed          ? w[i * in + column]
                                                     : w[column * in + i];
          const int64_t at = p * line * kPanel + i / 2 * 2 * kPanel + 2 * j + i % 2;
          ASSERT_EQ(panels[at], f32_to_bf16(number)) << p << ' ' << i << ' ' << j;
        }
      }
    }
  });
}

TEST(PackVector, TransposesEveryNumber) {
  for_each_packing([](const std::vector<float>& w, int64_t rows, int64_t columns, bool padded,
                      const Workers& pool) {
    const int64_t to_stride = rows + (padded ? 16 : 0);
    std::vector<float> to(static_cast<size_t>(columns * to_stride), 7.0f);
    transpose(w.data(), columns, rows, columns, to.data(), to_stride, pool);
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < to_stride; ++i) {
        const float want = i < rows ? w[i * columns + j] : 7.0f;
        ASSERT_EQ(bits_of(to[j * to_stride + i]), bits_of(want)) << j << ' ' << i;
      }
    }
  });
}

} // namespace
} // namespace dllm::cpu
