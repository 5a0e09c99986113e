// The micro-kernel of f32 products, which computes a tile of rows x panels in registers. The header
// is included once per target, inside foreach_target.

#if defined(DLLM_CPU_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_GEMM_TILE_INL_H_
#undef DLLM_CPU_GEMM_TILE_INL_H_
#else
#define DLLM_CPU_GEMM_TILE_INL_H_
#endif

#include "cpu/simd/targets.h"

#include "cpu/gemm/lanes-inl.h"
#include "cpu/simd/math-inl.h"

#include <hwy/cache_control.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

constexpr int kVectors = static_cast<int>(kPanel / kLanes); // vectors of one panel line

// The operands of one tile, over k elements of every chain.
template <class W> struct TileCall {
  const float* a; // (rows, k)
  size_t a_stride;
  size_t a_step;
  const typename Lanes<W>::Unit* b;
  size_t panel_step; // units from one panel to the next
  float* c;
  size_t c_stride;
  size_t k;
  const char* next; // weights of later tiles, which this tile prefetches, next_step bytes per k
  size_t next_step;
  bool load; // the chains begin with C
  const float* scale;
  const float* bias;
};

// Distance in lines of a panel between a prefetch and its use. It is 3 KB in f32, which hides the
// latency of the third-level cache. AVX2 with 16 rows x 4864 from that cache reaches 55 % of peak
// without and 75 % with it.
constexpr int64_t kAhead = 48;

// Prefetches weights of later tiles into the second-level cache. A panel that is read for the first
// time comes from memory, and without the prefetch the first tile that reads it waits. 256 rows x
// 32768 x 896 reach 86 % of peak without and 93 % with it.
HWY_INLINE void PrefetchNext(const char* next) {
  __builtin_prefetch(next, 0, 2);
}
// False for wide tiles. They read their panels once, so no later tile could share the prefetches.
template <int P> inline constexpr bool kPrefetchesNext = P* kVectors <= 3;

// Computes the chains of a tile over weights in blocks.
template <int R, int P, class L>
HWY_INLINE void BlockChains(const TileCall<L>& t, V (&acc)[R][P * kVectors]) {
  constexpr int J = P * kVectors;
  constexpr int64_t kLine = L::kBytes / L::kBlock; // about the bytes of one k
  const D d;
  const float* a = t.a;
  const uint8_t* b = t.b;
  const char* next = t.next;
  for (size_t k = 0; k < t.k; k += L::kBlock, b += L::kBytes) {
    for (int64_t group = 0; group < L::kBlock / L::kGroup; ++group) {
      typename L::State state[J];
      DLLM_UNROLL for (int j = 0; j < J; ++j) {
        state[j] = L::Begin(b + (j / kVectors) * t.panel_step, group, j % kVectors * kLanes);
      }
      for (int64_t i = 0; i < L::kGroup; ++i, a += t.a_step) {
        DLLM_UNROLL for (int p = 0; p < P; ++p)
            hwy::Prefetch(b + p * t.panel_step + (group * L::kGroup + i + kAhead) * kLine);
        if constexpr (kPrefetchesNext<P>) PrefetchNext(next);
        next += t.next_step;
        V w[J];
        DLLM_UNROLL for (int j = 0; j < J; ++j) {
          w[j] =
              L::At(state[j], b + (j / kVectors) * t.panel_step, group, i, j % kVectors * kLanes);
        }
        DLLM_UNROLL for (int r = 0; r < R; ++r) {
          const V x = hn::Set(d, a[r * t.a_stride]);
          DLLM_UNROLL for (int j = 0; j < J; ++j) acc[r][j] = Fma(x, w[j], acc[r][j]);
        }
      }
    }
  }
}

// Computes R rows x P panels in registers. The scalar target has tiles of one row and one panel.
template <int R, int P, class W> HWY_NOINLINE void Tile(const TileCall<W>& t) {
  constexpr int J = P * kVectors;
  const D d;
  if constexpr (R >= 4) {
    if (!t.load) {
      DLLM_UNROLL for (int r = 0; r < R; ++r) {
        DLLM_UNROLL for (int j = 0; j < J; j += 16 / kLanes)
            __builtin_prefetch(t.c + r * t.c_stride + j * kLanes, 1, 3);
      }
    }
  }
  V acc[R][J];
  DLLM_UNROLL for (int r = 0; r < R; ++r) {
    DLLM_UNROLL for (int j = 0; j < J; ++j) {
      acc[r][j] = t.load ? hn::LoadU(d, t.c + r * t.c_stride + j * kLanes) : hn::Zero(d);
    }
  }
  if constexpr (kIsBlocks<W>) {
    BlockChains<R, P, W>(t, acc);
  } else {
    const float* a = t.a;
    const W* b = t.b;
    const char* next = t.next;
    const size_t a_step = t.a_step, next_step = t.next_step;
    for (size_t k = 0; k < t.k; ++k, a += a_step, b += kPanel, next += next_step) {
      DLLM_UNROLL for (int p = 0; p < P; ++p) hwy::Prefetch(b + p * t.panel_step + kAhead * kPanel);
      if constexpr (kPrefetchesNext<P>) PrefetchNext(next);
      V w[J];
      DLLM_UNROLL for (int j = 0; j < J; ++j) {
        w[j] = LoadWeights(b + (j / kVectors) * t.panel_step + j % kVectors * kLanes);
      }
      DLLM_UNROLL for (int r = 0; r < R; ++r) {
        const V x = hn::Set(d, a[r * t.a_stride]);
        DLLM_UNROLL for (int j = 0; j < J; ++j) acc[r][j] = Fma(x, w[j], acc[r][j]);
      }
    }
  }
  DLLM_UNROLL for (int j = 0; j < J; ++j) {
    if (t.scale != nullptr) {
      const V s = hn::LoadU(d, t.scale + j * kLanes);
      DLLM_UNROLL for (int r = 0; r < R; ++r) acc[r][j] = hn::Mul(acc[r][j], s);
    }
    if (t.bias != nullptr) {
      const V s = hn::LoadU(d, t.bias + j * kLanes);
      DLLM_UNROLL for (int r = 0; r < R; ++r) acc[r][j] = hn::Add(acc[r][j], s);
    }
    DLLM_UNROLL for (int r = 0; r < R; ++r)
        hn::StoreU(acc[r][j], d, t.c + r * t.c_stride + j * kLanes);
  }
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
