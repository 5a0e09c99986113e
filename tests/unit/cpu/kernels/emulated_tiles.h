#pragma once
// The AMX unit in plain C++, one for each thread: its tiles, what configures them, and the
// operations of the manual (Intel 64 and IA-32 Architectures Software Developer's Manual, TDPBF16PS
// and TDPBSUD). The interface of cpu/gemm/amx-inl.h.

#include "cpu/gemm/dot.h"

#include <hwy/base.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cpu/gemm/amx-inl.h"

namespace dllm::cpu {

// Denormals are zero, in numbers that are read and in results.
inline float without_denormals(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
inline float tile_fma(float a, float b, float c) {
  return without_denormals(
      std::fma(without_denormals(a), without_denormals(b), without_denormals(c)));
}

struct EmulatedTiles {
  struct State {
    amx::TileShape shape;
    bool is_configured = false;
    uint8_t tiles[8][16][64];
  };
  static State& state() {
    static thread_local State tiles;
    return tiles;
  }

  static void Configure(const amx::TileShape& shape) {
    State& s = state();
    ASSERT_EQ(shape.palette, 1);
    for (int t = 0; t < 8; ++t) {
      ASSERT_TRUE(shape.rows[t] >= 1 && shape.rows[t] <= 16) << t;
      ASSERT_TRUE(shape.row_bytes[t] >= 4 && shape.row_bytes[t] <= 64) << t;
    }
    s.shape = shape;
    s.is_configured = true;
    std::memset(s.tiles, 0, sizeof s.tiles); // so does ldtilecfg
  }
  static void Release() { state().is_configured = false; }

  template <int kTile> static void Load(const void* p, int64_t stride) {
    State& s = state();
    ASSERT_TRUE(s.is_configured);
    std::memset(s.tiles[kTile], 0, sizeof s.tiles[kTile]);
    for (int r = 0; r < s.shape.rows[kTile]; ++r)
      std::memcpy(s.tiles[kTile][r], static_cast<const uint8_t*>(p) + r * stride,
                  s.shape.row_bytes[kTile]);
  }
  template <int kTile> static void LoadOnce(const void* p, int64_t stride) {
    Load<kTile>(p, stride);
  }
  template <int kTile> static void Store(void* p, int64_t stride) {
    State& s = state();
    ASSERT_TRUE(s.is_configured);
    for (int r = 0; r < s.shape.rows[kTile]; ++r)
      std::memcpy(static_cast<uint8_t*>(p) + r * stride, s.tiles[kTile][r],
                  s.shape.row_bytes[kTile]);
  }
  template <int kTile> static void Zero() {
    ASSERT_TRUE(state().is_configured);
    std::memset(state().tiles[kTile], 0, sizeof state().tiles[kTile]);
  }

  template <bool kInteger, int kC, int kA, int kB> static void Dot() {
    State& s = state();
    ASSERT_TRUE(s.is_configured);
    // What the instructions demand of the sizes.
    ASSERT_EQ(s.shape.rows[kC], s.shape.rows[kA]);
    ASSERT_EQ(s.shape.row_bytes[kC], s.shape.row_bytes[kB]);
    ASSERT_EQ(s.shape.row_bytes[kA], 4 * s.shape.rows[kB]);
    for (int m = 0; m < s.shape.rows[kC]; ++m) {
      for (int n = 0; n < s.shape.row_bytes[kC] / 4; ++n) {
        uint8_t* sum = s.tiles[kC][m] + 4 * n;
        if (kInteger)
          integer_element<kA, kB>(s, m, n, sum);
        else
          pair_element<kA, kB>(s, m, n, sum);
      }
    }
  }

private:
  // Signed bytes times unsigned ones; sums wrap at 32 bits.
  template <int kA, int kB> static void integer_element(State& s, int m, int n, uint8_t* to) {
    uint32_t sum;
    std::memcpy(&sum, to, 4);
    for (int i = 0; i < s.shape.row_bytes[kA]; ++i) {
      const int product =
          static_cast<int8_t>(s.tiles[kA][m][i]) * s.tiles[kB][i / 4][4 * n + i % 4];
      sum += static_cast<uint32_t>(product);
    }
    std::memcpy(to, &sum, 4);
  }

  // Two sums from zero, of the even and of the odd numbers; then both together, then onto the tile.
  template <int kA, int kB> static void pair_element(State& s, int m, int n, uint8_t* to) {
    const auto number = [](const uint8_t* p) {
      uint16_t bits;
      std::memcpy(&bits, p, 2);
      return bf16_to_f32(bits);
    };
    float sums[2] = {0, 0}, sum;
    for (int k = 0; k < s.shape.row_bytes[kA] / 4; ++k) {
      for (int i = 0; i < 2; ++i)
        sums[i] = tile_fma(number(s.tiles[kA][m] + 4 * k + 2 * i),
                           number(s.tiles[kB][k] + 4 * n + 2 * i), sums[i]);
    }
    std::memcpy(&sum, to, 4);
    const float both = without_denormals(sums[0] + sums[1]);
    sum = without_denormals(without_denormals(sum) + both);
    std::memcpy(to, &sum, 4);
  }
};

} // namespace dllm::cpu
