// Tiles and loops of bf16 and int8 products. The template parameter S is a set of instructions:
//
//   kLanes            columns of a vector, a divisor of 16
//   kInteger          true: int32 sums of bytes; false: f32 sums of pairs
//   kTallest, kGroup  most rows and panels of a tile; kTallestBlocks: rows with a scale per block
//   kWideRows, kWide  a tile of at most kWideRows rows has kWide panels
//   kWidest           panels of a tile of one row
//   Sum, Weight, Input, F, with Load, Spread, Dot and arithmetic on F
//
// The header is included where the instructions are switched on, each time with another
// DLLM_DOT_NAMESPACE. dot_vector.cpp includes it once per target of Highway, and dot_x86.cpp once
// per set of instructions. So it has no include guard.

namespace DLLM_DOT_NAMESPACE {

struct DotCall {
  const uint8_t* x; // rounded rows
  int64_t x_stride, plane;
  const int32_t* start; // int8: (rows, blocks)
  int64_t blocks;
  const float* row_scale; // int8: (rows, blocks)
  const uint8_t* b;
  int64_t panel_step; // bytes from one panel to the next
  float* c;
  int64_t c_stride;
  int64_t steps; // lines of a panel, or of one of its blocks
  // Weights of later tiles, which this tile prefetches, next_step bytes per line.
  const uint8_t* next;
  int64_t next_step;
  bool load; // the sums begin with C; f32 only
  const float* scale;
  const float* bias;
};

// Number of vectors of a line.
template <class S> inline constexpr int kVectorsOf = kPanel / S::kLanes;

// Distance in lines between a prefetch and its use, 3 KB as in tile-inl.h.
constexpr int64_t kLinesAhead = 48;

// Adds `steps` lines of P panels to the sums of R rows.
template <class S, int R, int P>
HWY_INLINE void Dots(const DotCall& t, const uint8_t* x, const uint8_t* b, const uint8_t* next,
                     int64_t steps, typename S::Sum (&sums)[R][P * kVectorsOf<S>]) {
  constexpr int J = P * kVectorsOf<S>;
  constexpr int kBytes = S::kLanes * 4;
  for (int64_t i = 0; i < steps; ++i, x += S::kInputBytes, b += kLineBytes, next += t.next_step) {
    typename S::Weight w[J];
    // Tiles of few rows have no time to prefetch for later tiles. Wide tiles read their panels
    // once.
    if constexpr (R >= 4 && P <= S::kGroup) __builtin_prefetch(next, 0, 2);
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

// Adds (integer sum) * (scale of the activations) * (scale of the weight) of each block to y, in
// the order of the blocks.
template <class S, int R, int P>
HWY_INLINE void BlockDots(const DotCall& t, typename S::F (&y)[R][P * kVectorsOf<S>]) {
  constexpr int J = P * kVectorsOf<S>;
  const uint8_t *x = t.x, *scales = t.b, *b = t.b + t.blocks * 2 * kPanel, *next = t.next;
  for (int64_t block = 0; block < t.blocks; ++block) {
    typename S::Sum sums[R][J];
    DLLM_UNROLL for (int r = 0; r < R; ++r) {
      const typename S::Sum start = S::Start(t.start[r * t.blocks + block]);
      DLLM_UNROLL for (int j = 0; j < J; ++j) sums[r][j] = start;
    }
    Dots<S, R, P>(t, x, b, next, t.steps, sums);
    typename S::F s[R];
    DLLM_UNROLL for (int r = 0; r < R; ++r) s[r] = S::SetF(t.row_scale[r * t.blocks + block]);
    DLLM_UNROLL for (int j = 0; j < J; ++j) {
      const typename S::F d =
          S::Halves(scales + j / kVectorsOf<S> * t.panel_step + j % kVectorsOf<S> * S::kLanes * 2);
      DLLM_UNROLL for (int r = 0; r < R; ++r) y[r][j] =
          S::Fma(S::Mul(S::Float(sums[r][j]), s[r]), d, y[r][j]);
    }
    x += t.steps * S::kInputBytes;
    b += t.steps * kLineBytes;
    next += t.steps * t.next_step;
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
    Dots<S, R, P>(t, t.x, t.b, t.next, t.steps, sums);
    DLLM_UNROLL for (int r = 0; r < R; ++r) {
      DLLM_UNROLL for (int j = 0; j < J; ++j) y[r][j] = S::Float(sums[r][j]);
    }
  } else {
    Dots<S, R, P>(t, t.x, t.b, t.next, t.steps, y);
  }
  if constexpr (S::kInteger && !kBlocks) {
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

// Runs a tile of `rows` rows, which is 1, 2, 4 or kLimit.
template <class S, int P, bool kBlocks, int kLimit>
HWY_INLINE void DotRows(int64_t rows, const DotCall& t) {
  switch (rows) {
  case 1: return DotTile<S, 1, P, kBlocks>(t);
  case 2: return DotTile<S, std::min(2, kLimit), P, kBlocks>(t);
  case 4: return DotTile<S, std::min(4, kLimit), P, kBlocks>(t);
  default: return DotTile<S, kLimit, P, kBlocks>(t);
  }
}

// Returns the height of the next tile.
template <int kLimit> HWY_INLINE int64_t NextDotRows(int64_t left) {
  if (left >= kLimit) return kLimit;
  return left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

HWY_INLINE void SkipRows(int64_t rows, DotCall& t) {
  t.x += rows * t.x_stride;
  t.c += rows * t.c_stride;
  if (t.start != nullptr) t.start += rows * t.blocks, t.row_scale += rows * t.blocks;
}

// Computes all rows of one group of P panels. With `more` another group of P panels follows. Each
// tile prefetches a part of that group into the second-level cache (gemm-inl.h).
template <class S, int P, bool kBlocks, int kLimit = kMostRows<S, kBlocks>>
void DotColumns(int64_t rows, bool more, DotCall t) {
  const int64_t lines = t.steps * (kBlocks ? t.blocks : 1);
  const int64_t bytes = lines * kLineBytes + (kBlocks ? t.blocks * 2 * kPanel : 0);
  const int64_t tiles = (rows + kLimit - 1) / kLimit;
  int64_t step = 8;
  while (step < 64 && step * lines * tiles < P * bytes) step *= 2;
  const uint8_t* after = t.b + P * t.panel_step;
  for (int64_t at = 0; rows > 0; at += lines * step) {
    const bool some = more && at < P * bytes;
    t.next = some ? after + at / bytes * t.panel_step + at % bytes : t.b;
    t.next_step = some ? step : 0;
    const int64_t height = NextDotRows<kLimit>(rows);
    DotRows<S, P, kBlocks, kLimit>(height, t);
    SkipRows(height, t);
    rows -= height;
  }
}

// Computes the last panel when n is not a multiple of 16. It uses full-width copies of C, scale and
// bias.
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

// Computes `rows` rows of C in the panels [begin, end).
template <class S, bool kBlocks>
void DotPanels(const Gemm& g, int64_t rows, int64_t begin, int64_t end, DotCall base) {
  base.next = base.b; // a prefetch of lines in the cache costs only a load
  base.next_step = 0;
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
      DotColumns<S, S::kWide, kBlocks, std::max(1, kMostWideRows<S, kBlocks>)>(
          rows, full >= 2 * S::kWide, t);
      p += S::kWide;
    } else if (full >= S::kGroup) {
      DotColumns<S, S::kGroup, kBlocks>(rows, full >= 2 * S::kGroup, t);
      p += S::kGroup;
    } else {
      DotColumns<S, 1, kBlocks>(rows, false, t);
      p += 1;
    }
  }
}

// Rows of A stay in the second-level cache and stripes of panels in the third-level cache, as in
// gemm-inl.h. Long chains of bf16 are stored in C and continued exactly. Integer sums are not
// stored, so a block has fewer rows when k is long.
constexpr int64_t kDotRowBlock = 128;
constexpr int64_t kDotStripe = 64;
constexpr int64_t kDotRowBytes = int64_t{1} << 19;
constexpr int64_t kDotChain = 2048;             // even
constexpr int64_t kDotCheckFlops = 200'000'000; // between two checks of the task, below 2 ms

// Returns the rows of a block, a multiple of the rows of a tile.
template <class S, bool kBlocks> int64_t DotRowBlock(int64_t k) {
  constexpr int64_t kStep = kMostRows<S, kBlocks>;
  const int64_t fit = S::kInteger ? kDotRowBytes / std::max<int64_t>(1, k) : kDotRowBlock;
  return std::clamp<int64_t>(fit, 32, kDotRowBlock) / kStep * kStep;
}

// Computes `rows` rows from `row` on in the panels [begin, end), for all k.
template <class S, bool kBlocks>
void DotStripe(const Gemm& g, const RoundedRows& x, int64_t row, int64_t rows, int64_t begin,
               int64_t end) {
  DotCall t{};
  t.x_stride = x.stride;
  t.plane = x.plane;
  t.blocks = x.blocks;
  t.panel_step = kPanel * line_bytes(g, g.b_chain > 0 ? g.b_chain : g.k);
  t.c = g.c + row * g.c_stride;
  t.c_stride = g.c_stride;
  if constexpr (S::kInteger) {
    t.start = x.start + row * x.blocks;
    t.row_scale = x.scale + row * x.blocks;
  }
  int64_t k = 0;
  do {
    check_task(g.task);
    const int64_t left = g.k - k;
    const int64_t numbers = !S::kInteger && left > kDotChain + kDotChain / 2 ? kDotChain : left;
    const bool last = k + numbers == g.k;
    t.steps = S::kInteger ? (g.k / x.blocks + 3) / 4 : (numbers + 1) / 2;
    t.x = x.data + row * x.stride + k / 2 * S::kInputBytes; // k is 0 except for pairs
    t.b = static_cast<const uint8_t*>(g.b) + k / 2 * kLineBytes;
    t.load = g.accumulate || k > 0;
    t.scale = last ? g.scale : nullptr;
    t.bias = last ? g.bias : nullptr;
    DotPanels<S, kBlocks>(g, rows, begin, end, t);
    k += numbers;
  } while (k < g.k);
}

template <class S, bool kBlocks>
void DotPartOf(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t panel_begin,
               int64_t panel_end) {
  const RoundedRows x = rounded_rows(g);
  const int64_t block = DotRowBlock<S, kBlocks>(g.k), most = std::min(block, row_end - row_begin);
  const int64_t work = 2 * kPanel * std::max<int64_t>(1, most) * std::max<int64_t>(1, g.k);
  const int64_t stride =
      most >= 2 * S::kTallest ? kDotStripe : std::max<int64_t>(8, kDotCheckFlops / work / 8 * 8);
  for (int64_t p = panel_begin; p < panel_end; p += stride) {
    for (int64_t row = row_begin; row < row_end; row += block)
      DotStripe<S, kBlocks>(g, x, row, std::min(block, row_end - row), p,
                            std::min(panel_end, p + stride));
  }
}

// Runs independent chains and returns the multiply-adds done. Sixteen chains cover latency x
// throughput with 16 lanes.
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
