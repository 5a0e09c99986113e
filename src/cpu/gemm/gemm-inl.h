// The loops of f32 products around the tiles of tile-inl.h. The header is included once per target,
// inside foreach_target.

#if defined(DLLM_CPU_GEMM_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_GEMM_GEMM_INL_H_
#undef DLLM_CPU_GEMM_GEMM_INL_H_
#else
#define DLLM_CPU_GEMM_GEMM_INL_H_
#endif

#include "cpu/simd/targets.h"

#include "cpu/gemm/tile-inl.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

// Largest height of a tile. Eight rows x three panels need 32 vector registers of 16 lanes. Six
// rows fit 16 registers of 8 lanes. Twelve rows were slower, because their broadcasts fall on one
// set of the first-level cache when k is a power of two.
constexpr int kTallest = kLanes == 16 ? 8 : kLanes == 1 ? 1 : 6;
// Panels of a tall tile. With three panels, 24 multiply-adds share 11 loads and 4 prefetches. With
// two panels, 16 share 10 loads and 3 prefetches. An Intel core with two load ports reaches 92 and
// 86 % of its peak. Blocks have two panels, because their scales need registers. With fewer than
// kRowsOfThree rows a group of three ends before the next group is prefetched, so groups have two
// panels. 32 x 1536 x 512 from memory reach 63 % with two and 60 % with three panels.
template <class W> inline constexpr int kGroup = kLanes != 16 ? 1 : kIsBlocks<W> ? 2 : 3;
constexpr int64_t kRowsOfThree = 40;
// Products of at most kFewRows rows have tiles of kWide panels, and products of one row have tiles
// of kWidest panels.
constexpr int kFewRows = kLanes == 16 ? 4 : kLanes == 1 ? 0 : 3;
constexpr int kWide = kLanes == 16 ? 4 : 2;
constexpr int kWidest = kLanes == 16 ? 8 : kLanes == 1 ? 1 : 4;

// Returns the height of the next tile when `left` rows remain. It avoids a last tile of one or two
// rows.
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
    default: return; // NextRows returns no other height
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

// NextWeights divides the prefetches of the next panels among the tiles of `rows` rows. Each tile
// prefetches `step` bytes per k. share() sets the part of tile `index`. `bytes` is the size of one
// panel in this part of the chain.
struct NextWeights {
  const char* after;
  size_t panel_step, bytes, panels, step;
  NextWeights(const char* from, size_t panel_step, size_t bytes, size_t panels, size_t k,
              int64_t rows)
      : after(from), panel_step(panel_step), bytes(bytes), panels(panels), step(1) {
    const size_t tiles = static_cast<size_t>((rows + kTallest - 1) / kTallest);
    while (step < 64 && step * k * tiles < panels * bytes) step *= 2;
  }
  template <class Call> void share(size_t index, Call& t) const {
    const size_t at = index * t.k * step;
    const bool some = after != nullptr && at < panels * bytes;
    t.next =
        some ? after + at / bytes * panel_step + at % bytes : reinterpret_cast<const char*>(t.b);
    t.next_step = some ? step : 0;
  }
};

// Computes `rows` rows of one group of P whole panels. `following` is the number of panels in the
// next group.
template <int P, class W> HWY_INLINE void Columns(int64_t rows, int64_t following, TileCall<W> t) {
  using L = Lanes<W>;
  constexpr size_t kUnit = sizeof(typename L::Unit);
  const char* after = reinterpret_cast<const char*>(t.b + P * t.panel_step);
  const NextWeights next(following > 0 ? after : nullptr, t.panel_step * kUnit,
                         t.k / L::kBlock * L::kUnits * kUnit, static_cast<size_t>(following), t.k,
                         rows);
  for (size_t index = 0; rows > 0; ++index) {
    const int64_t height = NextRows<W>(rows);
    next.share(index, t);
    AnyRows<P, W>(height, t);
    rows -= height;
    t.a += height * t.a_stride;
    t.c += height * t.c_stride;
  }
}

// Computes the last panel when n is not a multiple of 16. It uses full-width copies of C, scale and
// bias.
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

// Returns the panels of the next group when `full` panels remain. Four panels become two groups of
// two.
template <class W> inline int64_t next_group(int64_t rows, int64_t full) {
  const int64_t most = rows < kRowsOfThree || full == 4 ? std::min(2, kGroup<W>) : kGroup<W>;
  return std::min(full, most);
}

// Computes `rows` rows of C in the panels [begin, end), over t.k elements of the chains.
template <class W>
void Panels(const Gemm& g, int64_t rows, int64_t begin, int64_t end, TileCall<W> t) {
  const auto* const b = t.b;
  t.next = reinterpret_cast<const char*>(b); // a prefetch of lines in the cache costs only a load
  t.next_step = 0;
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
    const int64_t group = next_group<W>(rows, full), following = next_group<W>(rows, full - group);
    if (group == 3) {
      Columns<kGroup<W>, W>(rows, following, t);
    } else if (group == 2) {
      Columns<std::min(2, kGroup<W>), W>(rows, following, t);
    } else {
      Columns<1, W>(rows, following, t);
    }
    p += group;
  }
}

// A block of kRowBlock rows x a chain of k stays in the second-level cache while panels are read. A
// block has at most kNumbers numbers, with chains of kLeastChain to kMostChain. Longer chains are
// stored in C and continued exactly. A stripe of panels stays in the third-level cache until all
// rows are multiplied by it, so weights are read from memory once. The task is checked after each
// stripe, that is, after 1 ms or less.
constexpr int64_t kRowBlock = kLanes == 16 ? 160 : 96;
constexpr int64_t kStripe = 36;
constexpr int64_t kLeastChain = 1024, kMostChain = 4096,
                  kNumbers = (kLanes == 16 ? 128 : 96) * kLeastChain;
constexpr int64_t kCheckFlops = 100'000'000;

inline int64_t chain_block(int64_t rows) {
  return std::clamp<int64_t>(kNumbers / std::max<int64_t>(1, rows) / 256 * 256, kLeastChain,
                             kMostChain);
}
// Returns the panels of a stripe, a multiple of the widest group.
inline int64_t stripe_panels(int64_t rows, int64_t k) {
  if (rows >= 2 * kTallest) return kStripe;
  return std::max<int64_t>(8, kCheckFlops / (2 * kPanel * rows * std::max<int64_t>(1, k)) / 8 * 8);
}

// Computes `rows` rows from `row` on in a stripe of panels, for all k.
template <class W>
void Stripe(const Gemm& g, int64_t row, int64_t rows, int64_t panel_begin, int64_t panel_end) {
  using L = Lanes<W>;
  static_assert(kLeastChain % L::kBlock == 0 && 256 % L::kBlock == 0 && L::kUnits >= 1);
  const int64_t chain = chain_block(rows);
  int64_t k = 0;
  do {
    check_task(g.task);
    const int64_t left = g.k - k;
    const int64_t step = left > chain + chain / 2 ? chain : left;
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
    Panels<W>(g, rows, panel_begin, panel_end, t);
    k += step;
  } while (k < g.k);
}

// Computes a part of C. The rows are cut into equal blocks, because a small last block would read
// all weights again.
template <class W>
void Part(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t panel_begin,
          int64_t panel_end) {
  const int64_t rows = row_end - row_begin, blocks = (rows + kRowBlock - 1) / kRowBlock;
  const int64_t tiles = (rows + 8 * blocks - 1) / std::max<int64_t>(1, 8 * blocks);
  const int64_t block = 8 * std::max<int64_t>(1, tiles),
                stride = stripe_panels(std::min(block, rows), g.k);
  for (int64_t p = panel_begin; p < panel_end; p += stride) {
    for (int64_t row = row_begin; row < row_end; row += block)
      Stripe<W>(g, row, std::min(block, row_end - row), p, std::min(panel_end, p + stride));
  }
}

template <class... L>
void BlockPart(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t panel_begin,
               int64_t panel_end, std::tuple<L...>) {
  const std::string_view name = g.b_format->name;
  // Calls the loader of this name. WeightOperand rejects formats without a loader.
  static_cast<void>(
      ((name == L::kFormat && (Part<L>(g, row_begin, row_end, panel_begin, panel_end), true)) ||
       ...));
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
  default: return; // the shape rules of the products reject other types
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

// Computes independent chains and returns the multiply-adds done. Twelve chains cover latency x
// throughput of all chips so far.
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
