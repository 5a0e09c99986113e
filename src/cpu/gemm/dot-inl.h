// Tiles and loops of bf16 and int8 products. S is a set of instructions:
//
//   kLanes            columns of a vector; 16 is a multiple
//   kInteger          sums are int32, of bytes; else f32, of pairs
//   kTallest, kGroup  rows and panels of a tile; kTallestBlocks with a scale per block
//   kWideRows, kWide  up to so many rows a tile takes kWide panels instead; kWidest for one row
//   Sum, Weight, Input, F, with Load, Spread, Dot and arithmetic on F
//
// Included where the instructions are switched on, each time into another DLLM_DOT_NAMESPACE: once per target of Highway
// (dot_vector.cpp) and per set of dot_x86.cpp. So it has no include guard.

namespace DLLM_DOT_NAMESPACE {

struct DotCall {
  const uint8_t* x; // rounded rows
  int64_t x_stride, plane;
  const int32_t* start; // int8: (rows, blocks)
  int64_t blocks;
  const float* row_scale; // int8
  const uint8_t* b;
  int64_t panel_step; // bytes from one panel to the next
  float* c;
  int64_t c_stride;
  int64_t steps; // lines of a panel, or of one of its blocks
  bool load;     // go on from C; f32 sums only
  const float* scale;
  const float* bias;
};

template <class S> inline constexpr int kVectorsOf = kPanel / S::kLanes; // of a line

// Lines ahead of their use that are prefetched: 3 KB, as in gemm-inl.h.
constexpr int64_t kLinesAhead = 48;

// Adds `steps` lines of P panels to the sums of R rows.
template <class S, int R, int P>
HWY_INLINE void Dots(const DotCall& t, const uint8_t* x, const uint8_t* b, int64_t steps,
                     typename S::Sum (&sums)[R][P * kVectorsOf<S>]) {
  constexpr int J = P * kVectorsOf<S>;
  constexpr int kBytes = S::kLanes * 4;
  for (int64_t i = 0; i < steps; ++i, x += S::kInputBytes, b += kLineBytes) {
    typename S::Weight w[J];
    DLLM_UNROLL for (int p = 0; p < P; ++p)
        __builtin_prefetch(b + p * t.panel_step + kLinesAhead * kLineBytes);
    DLLM_UNROLL for (int j = 0; j < J; ++j) {
      w[j] = S::Load(b + j / kVectorsOf<S> * t.panel_step + j % kVectorsOf<S> * kBytes);
    }
    DLLM_UNROLL for (int r = 0; r < R; ++r) {
      const typename S::Input v = S::Spread(x + r * t.x_stride, t.plane);
      DLLM_UNROLL for (int j = 0; j < J; ++j) sums[r][j] = S::Dot(sums[r][j], w[j], v);
    }
  }
}

// y = sum over blocks, in order, of (integer sum) * (scale of the block).
template <class S, int R, int P>
HWY_INLINE void BlockDots(const DotCall& t, typename S::F (&y)[R][P * kVectorsOf<S>]) {
  constexpr int J = P * kVectorsOf<S>;
  const uint8_t *x = t.x, *scales = t.b, *b = t.b + t.blocks * 2 * kPanel;
  for (int64_t block = 0; block < t.blocks; ++block) {
    typename S::Sum sums[R][J];
    DLLM_UNROLL for (int r = 0; r < R; ++r) {
      const typename S::Sum start = S::Start(t.start[r * t.blocks + block]);
      DLLM_UNROLL for (int j = 0; j < J; ++j) sums[r][j] = start;
    }
    Dots<S, R, P>(t, x, b, t.steps, sums);
    DLLM_UNROLL for (int j = 0; j < J; ++j) {
      const typename S::F d =
          S::Halves(scales + j / kVectorsOf<S> * t.panel_step + j % kVectorsOf<S> * S::kLanes * 2);
      DLLM_UNROLL for (int r = 0; r < R; ++r) y[r][j] = S::Fma(S::Float(sums[r][j]), d, y[r][j]);
    }
    x += t.steps * S::kInputBytes;
    b += t.steps * kLineBytes;
    scales += 2 * kPanel;
  }
}

template <class S, int R, int P, bool kBlocks> HWY_NOINLINE void DotTile(const DotCall& t) {
  constexpr int J = P * kVectorsOf<S>;
  typename S::F y[R][J];
  if constexpr (kBlocks || !S::kInteger) {
    DLLM_UNROLL for (int r = 0; r < R; ++r) {
      DLLM_UNROLL for (int j = 0; j < J; ++j) {
        y[r][j] = t.load ? S::LoadF(t.c + r * t.c_stride + j * S::kLanes) : S::SetF(0.0f);
      }
    }
  }
  if constexpr (kBlocks) {
    BlockDots<S, R, P>(t, y);
  } else if constexpr (S::kInteger) {
    typename S::Sum sums[R][J];
    DLLM_UNROLL for (int r = 0; r < R; ++r) {
      DLLM_UNROLL for (int j = 0; j < J; ++j) sums[r][j] = S::Start(t.start[r]);
    }
    Dots<S, R, P>(t, t.x, t.b, t.steps, sums);
    DLLM_UNROLL for (int r = 0; r < R; ++r) {
      DLLM_UNROLL for (int j = 0; j < J; ++j) y[r][j] = S::Float(sums[r][j]);
    }
  } else {
    Dots<S, R, P>(t, t.x, t.b, t.steps, y);
  }
  if constexpr (S::kInteger) {
    DLLM_UNROLL for (int r = 0; r < R; ++r) {
      const typename S::F s = S::SetF(t.row_scale[r]);
      DLLM_UNROLL for (int j = 0; j < J; ++j) y[r][j] = S::Mul(y[r][j], s);
    }
  }
  DLLM_UNROLL for (int j = 0; j < J; ++j) {
    if (t.scale != nullptr) {
      const typename S::F s = S::LoadF(t.scale + j * S::kLanes);
      DLLM_UNROLL for (int r = 0; r < R; ++r) y[r][j] = S::Mul(y[r][j], s);
    }
    if (t.bias != nullptr) {
      const typename S::F s = S::LoadF(t.bias + j * S::kLanes);
      DLLM_UNROLL for (int r = 0; r < R; ++r) y[r][j] = S::Add(y[r][j], s);
    }
    DLLM_UNROLL for (int r = 0; r < R; ++r)
        S::StoreF(y[r][j], t.c + r * t.c_stride + j * S::kLanes);
  }
}

template <class S, bool kBlocks>
inline constexpr int kMostRows = kBlocks ? S::kTallestBlocks : S::kTallest;
template <class S, bool kBlocks>
inline constexpr int kMostWideRows = kBlocks ? S::kWideRows / 2 : S::kWideRows;

// A tile of `rows`; it exists up to kLimit rows.
template <class S, int P, bool kBlocks, int kLimit>
HWY_INLINE void DotRows(int64_t rows, const DotCall& t) {
  switch (rows) {
  case 1: return DotTile<S, 1, P, kBlocks>(t);
  case 2: return DotTile<S, std::min(2, kLimit), P, kBlocks>(t);
  case 4: return DotTile<S, std::min(4, kLimit), P, kBlocks>(t);
  default: return DotTile<S, kLimit, P, kBlocks>(t);
  }
}

// The height of the next tile.
template <int kLimit> HWY_INLINE int64_t NextDotRows(int64_t left) {
  if (left >= kLimit) return kLimit;
  return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

HWY_INLINE void SkipRows(int64_t rows, DotCall& t) {
  t.x += rows * t.x_stride;
  t.c += rows * t.c_stride;
  if (t.start != nullptr) t.start += rows * t.blocks, t.row_scale += rows;
}

template <class S, int P, bool kBlocks, int kLimit = kMostRows<S, kBlocks>>
void DotColumns(int64_t rows, DotCall t) {
  while (rows > 0) {
    const int64_t height = NextDotRows<kLimit>(rows);
    DotRows<S, P, kBlocks, kLimit>(height, t);
    SkipRows(height, t);
    rows -= height;
  }
}

// The last panel when n is not a multiple of 16: through a full-width copy of C, scale and bias.
template <class S, bool kBlocks> void LastDotColumns(int64_t rows, int64_t columns, DotCall t) {
  constexpr int kLimit = kMostRows<S, kBlocks>;
  float c[kLimit * kPanel], scale[kPanel] = {}, bias[kPanel] = {};
  if (t.scale != nullptr) {
    std::copy_n(t.scale, columns, scale);
    t.scale = scale;
  }
  if (t.bias != nullptr) {
    std::copy_n(t.bias, columns, bias);
    t.bias = bias;
  }
  while (rows > 0) {
    const int64_t height = NextDotRows<kLimit>(rows);
    std::fill_n(c, height * kPanel, 0.0f);
    DotCall inner = t;
    inner.c = c;
    inner.c_stride = kPanel;
    for (int64_t r = 0; t.load && r < height; ++r)
      std::copy_n(t.c + r * t.c_stride, columns, c + r * kPanel);
    DotRows<S, 1, kBlocks, kLimit>(height, inner);
    for (int64_t r = 0; r < height; ++r) std::copy_n(c + r * kPanel, columns, t.c + r * t.c_stride);
    SkipRows(height, t);
    rows -= height;
  }
}

// C rows x panels [begin, end).
template <class S, bool kBlocks>
void DotPanels(const Gemm& g, int64_t rows, int64_t begin, int64_t end, const DotCall& base) {
  for (int64_t p = begin; p < end;) {
    DotCall t = base;
    t.b += p * t.panel_step;
    t.c += p * kPanel;
    if (t.scale != nullptr) t.scale += p * kPanel;
    if (t.bias != nullptr) t.bias += p * kPanel;
    const int64_t full = std::min(end, g.n / kPanel) - p;
    if (full <= 0) {
      LastDotColumns<S, kBlocks>(rows, g.n - p * kPanel, t);
      p += 1;
    } else if (rows == 1 && full >= S::kWidest && S::kWidest > 1) {
      DotTile<S, 1, S::kWidest, kBlocks>(t);
      p += S::kWidest;
    } else if (rows <= kMostWideRows<S, kBlocks> && full >= S::kWide) {
      DotColumns<S, S::kWide, kBlocks, std::max(1, kMostWideRows<S, kBlocks>)>(rows, t);
      p += S::kWide;
    } else if (full >= S::kGroup) {
      DotColumns<S, S::kGroup, kBlocks>(rows, t);
      p += S::kGroup;
    } else {
      DotColumns<S, 1, kBlocks>(rows, t);
      p += 1;
    }
  }
}

constexpr int64_t kDotRowBlock = 96;            // rows of A that stay in the second-level cache
constexpr int64_t kDotCheckFlops = 200'000'000; // between two checks of the task: below 2 ms

template <class S, bool kBlocks>
void DotPartOf(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t panel_begin,
               int64_t panel_end) {
  const RoundedRows x = rounded_rows(g);
  DotCall t{};
  t.x_stride = x.stride;
  t.plane = x.plane;
  t.blocks = x.blocks;
  t.b = static_cast<const uint8_t*>(g.b);
  t.panel_step = kPanel * line_bytes(g, g.b_chain > 0 ? g.b_chain : g.k);
  t.c_stride = g.c_stride;
  t.steps = S::kInteger ? (g.k / x.blocks + 3) / 4 : (g.k + 1) / 2;
  t.load = g.accumulate;
  t.scale = g.scale;
  t.bias = g.bias;
  for (int64_t row = row_begin; row < row_end; row += kDotRowBlock) {
    const int64_t rows = std::min(kDotRowBlock, row_end - row);
    t.x = x.data + row * x.stride;
    t.c = g.c + row * g.c_stride;
    if constexpr (S::kInteger) {
      t.start = x.start + row * x.blocks;
      t.row_scale = x.scale + row;
    }
    const int64_t work = 2 * kPanel * rows * std::max<int64_t>(1, g.k);
    const int64_t stride = std::max<int64_t>(8, kDotCheckFlops / work / 8 * 8);
    for (int64_t p = panel_begin; p < panel_end; p += stride) {
      check_task(g.task);
      DotPanels<S, kBlocks>(g, rows, p, std::min(panel_end, p + stride), t);
    }
  }
}

// Sixteen independent chains cover latency x throughput.
template <class S> int64_t DotChains(int64_t rounds, float* sink) {
  constexpr int kChains = S::kLanes == 16 ? 16 : S::kLanes == 1 ? 4 : 10;
  alignas(64) uint8_t line[kLineBytes];
  std::fill_n(line, kLineBytes, static_cast<uint8_t>(*sink));
  typename S::Weight w = S::Load(line);
  const typename S::Input x = S::Spread(line, 4);
  typename S::Sum sums[kChains];
  DLLM_UNROLL for (int i = 0; i < kChains; ++i) sums[i] = S::Start(i);
  for (int64_t round = 0; round < rounds; ++round) {
    DLLM_UNROLL for (int i = 0; i < kChains; ++i) sums[i] = S::Dot(sums[i], w, x);
  }
  float out[kPanel] = {};
  DLLM_UNROLL for (int i = 0; i < kChains; ++i) {
    S::StoreF(S::Add(S::Float(sums[i]), S::LoadF(out)), out);
  }
  *sink = out[0];
  return rounds * kChains * S::kLanes * (S::kInteger ? 4 : 2);
}

template <class S>
void DotPart(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t panel_begin,
             int64_t panel_end) {
  if constexpr (S::kInteger) {
    if (g.b_format != nullptr)
      return DotPartOf<S, true>(g, row_begin, row_end, panel_begin, panel_end);
  }
  DotPartOf<S, false>(g, row_begin, row_end, panel_begin, panel_end);
}

} // namespace DLLM_DOT_NAMESPACE
