// Per-target (included once per target, inside foreach_target): the micro-kernel and the loops
// around it.

#if defined(DLLM_CPU_GEMM_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_GEMM_GEMM_INL_H_
#undef DLLM_CPU_GEMM_GEMM_INL_H_
#else
#define DLLM_CPU_GEMM_GEMM_INL_H_
#endif

#include "cpu/simd/targets.h"

#include "cpu/gemm/lanes-inl.h"
#include "cpu/simd/math-inl.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

constexpr int kVectors = static_cast<int>(kPanel / kLanes); // of one panel row

// What one call of a tile needs; k elements of every chain.
template <class W> struct TileCall {
  const float* a; // (rows, k)
  size_t a_stride;
  size_t a_step;
  const typename Lanes<W>::Unit* b;
  size_t panel_step; // units from one panel to the next
  float* c;
  size_t c_stride;
  size_t k;
  bool load; // go on from C
  const float* scale;
  const float* bias;
};

// Rows of a panel prefetched ahead of their use: 3 KB, what the third-level cache needs to deliver
// (AVX2, 16 rows x 4864 from there: 55 % of peak without, 75 % with).
constexpr int64_t kAhead = 48;

// The chains of a tile over weights in blocks.
template <int R, int P, class L>
HWY_INLINE void BlockChains(const TileCall<L>& t, V (&acc)[R][P * kVectors]) {
  constexpr int J = P * kVectors;
  constexpr int64_t kLine = L::kBytes / L::kBlock; // bytes of one k, about
  const D d;
  const float* a = t.a;
  const uint8_t* b = t.b;
  for (size_t k = 0; k < t.k; k += L::kBlock, b += L::kBytes) {
    for (int64_t group = 0; group < L::kBlock / L::kGroup; ++group) {
      typename L::State state[J];
      DLLM_UNROLL for (int j = 0; j < J; ++j) {
        state[j] = L::Begin(b + (j / kVectors) * t.panel_step, group, j % kVectors * kLanes);
      }
      for (int64_t i = 0; i < L::kGroup; ++i, a += t.a_step) {
        DLLM_UNROLL for (int p = 0; p < P; ++p)
            hwy::Prefetch(b + p * t.panel_step + (group * L::kGroup + i + kAhead) * kLine);
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

// R rows x P panels held in registers; the scalar target uses one row and one panel.
template <int R, int P, class W> HWY_NOINLINE void Tile(const TileCall<W>& t) {
  constexpr int J = P * kVectors;
  const D d;
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
    const size_t a_step = t.a_step;
    for (size_t k = 0; k < t.k; ++k, a += a_step, b += kPanel) {
      DLLM_UNROLL for (int p = 0; p < P; ++p) hwy::Prefetch(b + p * t.panel_step + kAhead * kPanel);
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

// Tile heights that exist. Eight rows x two panels want 32 vector registers of 16 lanes (twelve
// rows were slower: their broadcasts fall on one set of the first-level cache when K is a power of
// two); six fit 16 registers of 8 lanes.
constexpr int kTallest = kLanes == 16 ? 8 : kLanes == 1 ? 1 : 6;
constexpr int kGroup = kLanes == 16 ? 2 : 1; // neighbouring panels in tall tiles
constexpr int kFewRows = kLanes == 16  ? 4
                         : kLanes == 1 ? 0
                                       : 3; // up to here tiles are wide instead
constexpr int kWide = kLanes == 16 ? 4 : 2;
constexpr int kWidest = kLanes == 16 ? 8 : kLanes == 1 ? 1 : 4; // for one row

// The height of the next tile when `left` rows are to be done: avoids leaving one or two for the
// end.
template <class W> HWY_INLINE int64_t NextRows(int64_t left) {
  if constexpr (kTallest == 1) return 1;
  if constexpr (kFewTiles<W>) return left >= kTallest ? kTallest : left >= 2 ? 2 : 1;
  if constexpr (kTallest == 8) {
    if (left >= 8 && left != 9 && left != 10) return 8;
  } else if (left == 8) {
    return 4;
  }
  if (left == 7) return 4;
  if (left >= 6) return 6;
  return left >= 4 ? 4 : left;
}

template <int P, class W> HWY_INLINE void AnyRows(int64_t rows, const TileCall<W>& t) {
  if constexpr (kFewTiles<W>) {
    if (rows == 1) return Tile<1, P, W>(t);
    if (rows == 2) return Tile<std::min(2, kTallest), P, W>(t);
    return Tile<kTallest, P, W>(t);
  } else {
    switch (rows) {
    case 1: return Tile<1, P, W>(t);
    case 2: return Tile<std::min(2, kTallest), P, W>(t);
    case 3: return Tile<std::min(3, kTallest), P, W>(t);
    case 4: return Tile<std::min(4, kTallest), P, W>(t);
    case 6: return Tile<std::min(6, kTallest), P, W>(t);
    case 8: return Tile<std::min(8, kTallest), P, W>(t);
    default: return; // NextRows gives no other count
    }
  }
}

template <int P, class W> HWY_INLINE void FewRows(int64_t rows, const TileCall<W>& t) {
  switch (rows) {
  case 2: return Tile<std::min(2, kTallest), P, W>(t);
  case 3: return Tile<std::min(3, kTallest), P, W>(t);
  default: return Tile<std::min(4, kTallest), P, W>(t);
  }
}

// Rows x one group of P panels, all columns real.
template <int P, class W> HWY_INLINE void Columns(int64_t rows, TileCall<W> t) {
  while (rows > 0) {
    const int64_t height = NextRows<W>(rows);
    AnyRows<P, W>(height, t);
    rows -= height;
    t.a += height * t.a_stride;
    t.c += height * t.c_stride;
  }
}

// The last panel when n is not a multiple of 16: through a full-width copy of C, scale and bias.
template <class W> void LastColumns(int64_t rows, int64_t columns, TileCall<W> t) {
  float c[8 * kPanel], scale[kPanel] = {}, bias[kPanel] = {};
  if (t.scale != nullptr) {
    std::copy_n(t.scale, columns, scale);
    t.scale = scale;
  }
  if (t.bias != nullptr) {
    std::copy_n(t.bias, columns, bias);
    t.bias = bias;
  }
  float* const real = t.c;
  const size_t stride = t.c_stride;
  t.c = c;
  t.c_stride = kPanel;
  for (int64_t row = 0; row < rows;) {
    const int64_t height = NextRows<W>(rows - row);
    std::fill_n(c, height * kPanel, 0.0f);
    for (int64_t r = 0; t.load && r < height; ++r)
      std::copy_n(real + (row + r) * stride, columns, c + r * kPanel);
    AnyRows<1, W>(height, t);
    for (int64_t r = 0; r < height; ++r)
      std::copy_n(c + r * kPanel, columns, real + (row + r) * stride);
    t.a += height * t.a_stride;
    row += height;
  }
}

// C rows x panels [begin, end), k elements of the chains.
template <class W>
void Panels(const Gemm& g, int64_t rows, int64_t begin, int64_t end, TileCall<W> t) {
  const auto* const b = t.b;
  const TileCall<W> base = t;
  for (int64_t p = begin; p < end;) {
    t.b = b + p * t.panel_step;
    t.c = base.c + p * kPanel;
    if (base.scale != nullptr) t.scale = base.scale + p * kPanel;
    if (base.bias != nullptr) t.bias = base.bias + p * kPanel;
    const int64_t full = std::min(end, g.n / kPanel) - p;
    if (full <= 0) {
      LastColumns<W>(rows, g.n - p * kPanel, t);
      p += 1;
      continue;
    }
    if constexpr (!kFewTiles<W>) {
      if (rows == 1 && full >= kWidest && kWidest > 1) {
        Tile<1, kWidest, W>(t);
        p += kWidest;
        continue;
      }
      if (rows <= kFewRows && rows > 1 && full >= kWide) {
        FewRows<kWide, W>(rows, t);
        p += kWide;
        continue;
      }
    }
    if (full >= kGroup) {
      Columns<kGroup, W>(rows, t);
      p += kGroup;
    } else {
      Columns<1, W>(rows, t);
      p += 1;
    }
  }
}

constexpr int64_t kRowBlock = 96;            // rows of A that stay in the second-level cache
constexpr int64_t kChainBlock = 4096;        // longer chains are stored and taken up again, exactly
constexpr int64_t kCheckFlops = 100'000'000; // between two checks of the task: about 2 ms

// Panels between two checks: a multiple of the widest group.
inline int64_t panels_between_checks(int64_t rows, int64_t k) {
  return std::max<int64_t>(8, kCheckFlops / (2 * kPanel * rows * std::max<int64_t>(1, k)) / 8 * 8);
}

template <class W>
void Part(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t panel_begin,
          int64_t panel_end) {
  using L = Lanes<W>;
  static_assert(kChainBlock % L::kBlock == 0 && L::kUnits >= 1);
  for (int64_t row = row_begin; row < row_end; row += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, row_end - row);
    int64_t k = 0;
    do {
      const int64_t left = g.k - k;
      const int64_t step = left > kChainBlock + kChainBlock / 2 ? kChainBlock : left;
      const bool last = k + step == g.k;
      TileCall<W> t;
      t.a = g.a + row * g.a_stride + k * g.a_step;
      t.a_stride = static_cast<size_t>(g.a_stride);
      t.a_step = static_cast<size_t>(g.a_step);
      t.b = static_cast<const typename L::Unit*>(g.b) + k / L::kBlock * L::kUnits;
      t.panel_step = static_cast<size_t>((g.b_chain > 0 ? g.b_chain : g.k) / L::kBlock * L::kUnits);
      t.c = g.c + row * g.c_stride;
      t.c_stride = static_cast<size_t>(g.c_stride);
      t.k = static_cast<size_t>(step);
      t.load = g.accumulate || k > 0;
      t.scale = last ? g.scale : nullptr;
      t.bias = last ? g.bias : nullptr;
      const int64_t stride = panels_between_checks(rows, step);
      for (int64_t p = panel_begin; p < panel_end; p += stride) {
        check_task(g.task);
        Panels<W>(g, rows, p, std::min(panel_end, p + stride), t);
      }
      k += step;
    } while (k < g.k);
  }
}

template <class... L>
void BlockPart(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t panel_begin,
               int64_t panel_end, std::tuple<L...>) {
  const std::string_view name = g.b_format->name;
  // The one whose name it is; WeightOperand lets no format without a loader through.
  ((name == L::kFormat && (Part<L>(g, row_begin, row_end, panel_begin, panel_end), true)) || ...);
}

void GemmPart(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t panel_begin,
              int64_t panel_end) {
  if (g.b_format != nullptr) {
    return BlockPart(g, row_begin, row_end, panel_begin, panel_end, BlockLanes());
  }
  switch (g.b_type) {
  case DType::f32: return Part<float>(g, row_begin, row_end, panel_begin, panel_end);
  case DType::bf16: return Part<uint16_t>(g, row_begin, row_end, panel_begin, panel_end);
  case DType::i8: return Part<int8_t>(g, row_begin, row_end, panel_begin, panel_end);
  default: return; // the shape rules of the products let no other type through
  }
}

template <class... L> bool HasLanes(std::string_view name, std::tuple<L...>) {
  return ((name == L::kFormat) || ...);
}

bool GemmReads(const WeightFormat& format) {
  return HasLanes(format.name, BlockLanes());
}

int64_t TargetId() {
  return HWY_TARGET;
}

// Twelve independent chains cover latency x throughput of every chip so far. Returns the
// multiply-adds done.
int64_t FmaChains(int64_t rounds, float* sink) {
  const D d;
  constexpr int64_t kChains = kLanes == 1 ? 8 : 12;
  V acc[kChains];
  DLLM_UNROLL for (int i = 0; i < kChains; ++i) acc[i] = hn::Set(d, 1.0f + i);
  const V x = hn::Set(d, *sink), y = hn::Set(d, 1e-9f);
  for (int64_t round = 0; round < rounds; ++round) {
    DLLM_UNROLL for (int i = 0; i < kChains; ++i) acc[i] = Fma(acc[i], x, y);
  }
  V total = acc[0];
  DLLM_UNROLL for (int i = 1; i < kChains; ++i) total = hn::Add(total, acc[i]);
  *sink = hn::GetLane(total);
  return rounds * kChains * kLanes;
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
