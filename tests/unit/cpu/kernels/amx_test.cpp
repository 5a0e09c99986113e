// The loops of the AMX kernels over a unit in plain C++: int8 bit by bit against integers, bf16 bit
// by bit against its own order of sums and within the bounds of the arithmetic; and next to the
// instructions, where a chip has them.

#include "unit/cpu/kernels/arithmetic_weight.h"
#include "unit/cpu/kernels/emulated_tiles.h"

#include <gtest/gtest.h>

namespace dllm::cpu {
namespace {

using amx::TilePart;

constexpr DotKernel kTilePairs{"emulated pairs", round_to_pair_tiles,
                               TilePart<EmulatedTiles, false>,
                               amx::TileChains<EmulatedTiles, false>};
constexpr DotKernel kTileBytes{"emulated bytes", round_to_byte_tiles, TilePart<EmulatedTiles, true>,
                               amx::TileChains<EmulatedTiles, true>};

// The sums of tdpbf16ps over a whole row: 32 numbers at a time, zeros behind the last.
float tile_sum(const float* x, const float* w, int64_t k, float sum) {
  for (int64_t first = 0; first < k; first += 32) {
    float parts[2] = {0, 0};
    for (int64_t i = first; i < std::min(k, first + 32); ++i)
      parts[i % 2] =
          tile_fma(bf16_to_f32(f32_to_bf16(x[i])), bf16_to_f32(f32_to_bf16(w[i])), parts[i % 2]);
    sum = without_denormals(sum + without_denormals(parts[0] + parts[1]));
  }
  return sum;
}

constexpr std::pair<int64_t, int64_t> kShapes[] = {
    {1, 32}, {16, 64}, {33, 64}, {150, 96}, {32, 32}, {40, 500}, {37, 71}, {16, 1}, {40, 3300}};

TEST(Amx, BytesAreExact) {
  for (const auto& [n, k] : kShapes) {
    const ArithmeticWeight w("int8", kArithmeticInt8, n, k);
    for (const int64_t m : {1, 2, 15, 16, 17, 31, 32, 33, 64, 75}) {
      const std::vector<float> x = uniform_numbers(m * k, 11);
      EXPECT_TRUE(same_row_bits(w.product(kTileBytes, x, m), int8_oracle(w, x, m)))
          << m << ' ' << n << ' ' << k;
      EXPECT_FALSE(EmulatedTiles::state().is_configured);
    }
  }
}

// Sums of unsigned weights pass 32 bits on the way.
TEST(Amx, BytesMayWrap) {
  constexpr int64_t n = 3, k = 131072;
  ArithmeticWeight w("int8", kArithmeticInt8, n, k);
  std::fill(w.plain.begin(), w.plain.end(), std::byte{127});
  pack(w.form, w.plain.data(), n, k, w.packed.data(), nullptr);
  std::fill(w.scale.begin(), w.scale.end(), 1.0f);
  std::fill(w.bias.begin(), w.bias.end(), 0.0f);
  const std::vector<float> x(static_cast<size_t>(k), 127.0f);
  for (const float y : w.product(kTileBytes, x, 1)) EXPECT_EQ(y, 127.0f * 127.0f * k);
}

TEST(Amx, PairsHaveTheOrderOfTheInstruction) {
  for (const auto& [n, k] : kShapes) {
    const ArithmeticWeight w("f32", kArithmeticBf16, n, k);
    for (const int64_t m : {1, 15, 16, 17, 32, 45}) {
      const std::vector<float> x = uniform_numbers(m * k, 11);
      const std::vector<float> y = w.product(kTilePairs, x, m);
      std::vector<float> expected(y.size());
      for (int64_t r = 0; r < m; ++r) {
        for (int64_t j = 0; j < n; ++j)
          expected[r * n + j] = tile_sum(&x[r * k], &w.numbers[j * k], k, 0) + w.bias[j];
      }
      EXPECT_TRUE(same_row_bits(y, expected)) << m << ' ' << n << ' ' << k;
    }
  }
}

// Rows, panels and chains that are cut at whole tiles of k.
TEST(Amx, CutsChangeNothing) {
  const int64_t n = 70, k = 200, cut = 96, m = 45;
  const ArithmeticWeight w("f32", kArithmeticBf16, n, k);
  const std::vector<float> x = uniform_numbers(m * k, 19);
  const std::vector<float> whole = w.product(kTilePairs, x, m);
  std::vector<float> parts(whole.size(), NAN), chains = parts;
  std::vector<std::byte> space;
  const Gemm g = w.gemm(x, parts, m, space);
  kTilePairs.round(g, 0, m);
  for (int64_t row = 0; row < m; row += 7) {
    for (int64_t p = 0; p < panel_count(n); p += 3)
      kTilePairs.part(g, row, std::min(m, row + 7), p, std::min(panel_count(n), p + 3));
  }
  EXPECT_TRUE(same_row_bits(parts, whole));

  Gemm half = w.gemm(x, chains, m, space);
  half.bias = nullptr;
  half.b_chain = k;
  half.k = cut;
  kTilePairs.round(half, 0, m);
  kTilePairs.part(half, 0, m, 0, panel_count(n));
  half.accumulate = true;
  half.bias = w.bias.data();
  half.a += cut;
  half.b = static_cast<const std::byte*>(half.b) + kPanel * line_bytes(half, cut);
  half.k = k - cut;
  kTilePairs.round(half, 0, m);
  kTilePairs.part(half, 0, m, 0, panel_count(n));
  EXPECT_TRUE(same_row_bits(chains, whole));
}

TEST(Amx, PassesNotANumberOn) {
  const int64_t n = 20, k = 71;
  for (const DotKernel& kernel : {kTilePairs, kTileBytes}) {
    const bool integer = kernel.part == kTileBytes.part;
    const ArithmeticWeight w(integer ? "int8" : "f32", integer ? kArithmeticInt8 : kArithmeticBf16,
                             n, k);
    std::vector<float> x = uniform_numbers(3 * k, 29);
    x[k + 70] = INFINITY; // in the part of a tile at the end
    const std::vector<float> y = w.product(kernel, x, 3);
    for (int64_t j = 0; j < n; ++j) {
      EXPECT_FALSE(std::isfinite(y[n + j]));
      EXPECT_TRUE(std::isfinite(y[j]) && std::isfinite(y[2 * n + j]));
    }
  }
}

// A unit that forgets the last line of every tile.
struct BrokenTiles : EmulatedTiles {
  template <bool kInteger, int kC, int kA, int kB> static void Dot() {
    std::memset(state().tiles[kB][15], 0, 64);
    EmulatedTiles::Dot<kInteger, kC, kA, kB>();
  }
};

// What decides at run time whether AMX is used.
TEST(Amx, AWrongUnitIsNoticed) {
  constexpr DotKernel kWrongPairs{"wrong", round_to_pair_tiles, TilePart<BrokenTiles, false>,
                                  nullptr};
  constexpr DotKernel kWrongBytes{"wrong", round_to_byte_tiles, TilePart<BrokenTiles, true>,
                                  nullptr};
  const DotKernel pairs = dot_kernels(PanelLayout::pairs).back(),
                  bytes = dot_kernels(PanelLayout::quads).back();
  // The portable kernels widen their activations, so each rounds for itself.
  EXPECT_TRUE(same_products(kTilePairs, pairs, PanelLayout::pairs));
  EXPECT_FALSE(same_products(kWrongPairs, pairs, PanelLayout::pairs));
  EXPECT_TRUE(same_products(kTileBytes, bytes, PanelLayout::quads));
  EXPECT_FALSE(same_products(kWrongBytes, bytes, PanelLayout::quads));
}

// On a chip that has the unit: the instructions are what the emulation says they are.
TEST(Amx, InstructionsAreThoseOfTheEmulation) {
  const DotKernel *pairs = amx_bf16_kernel(), *bytes = amx_int8_kernel();
  if (pairs == nullptr || bytes == nullptr) GTEST_SKIP() << "no AMX here";
  for (const auto& [n, k] : kShapes) {
    const ArithmeticWeight bf16("f32", kArithmeticBf16, n, k), int8("int8", kArithmeticInt8, n, k);
    for (const int64_t m : {4, 16, 33, 75}) {
      const std::vector<float> x = uniform_numbers(m * k, 11);
      EXPECT_TRUE(same_row_bits(bf16.product(*pairs, x, m), bf16.product(kTilePairs, x, m)))
          << m << ' ' << n << ' ' << k;
      EXPECT_TRUE(same_row_bits(int8.product(*bytes, x, m), int8.product(kTileBytes, x, m)))
          << m << ' ' << n << ' ' << k;
    }
  }
}

TEST(Amx, MeasuresItsPeak) {
  float sink = 1;
  EXPECT_EQ(kTilePairs.chains(2, &sink), 2 * 4 * 16 * 16 * 32);
  EXPECT_EQ(kTileBytes.chains(2, &sink), 2 * 4 * 16 * 16 * 64);
}

} // namespace
} // namespace dllm::cpu
