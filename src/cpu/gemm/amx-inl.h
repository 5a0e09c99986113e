// Products of pairs and quads on a unit that multiplies tiles: 16 rows x 64 bytes of activations with 16 lines of a panel. T is
// the unit:
//
//   Configure(shape), Release()    tiles and their sizes, of the calling thread
//   Load<t>, Zero<t>, Store<t>     a tile from and to rows that lie `stride` bytes apart
//   Dot<kInteger, c, a, b>         tile c += tile a x tile b: f32 sums of bf16 pairs, or int32 sums of i8 x u8
//
// dot_amx.cpp has the instructions, tests/unit/cpu/emulated_tiles.h the same in plain C++. Tiles 0 to 3 are sums, 4 and 5 rows
// of activations, 6 and 7 lines of panels.
//
// Include after cpu/gemm/dot.h, where the instructions are switched on. Everything depends on T, so that a program may hold both.

namespace dllm::cpu::amx {

// What ldtilecfg reads.
struct TileShape {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileShape) == 64);

// The tiles of one thread during a part of a product: shaped when the number of rows changes, given back at the end.
template <class T> class TileUse {
public:
  TileUse() = default;
  ~TileUse() {
    if (first_ != 0) T::Release();
  }
  TileUse(const TileUse&) = delete;
  TileUse& operator=(const TileUse&) = delete;

  // Rows of activations in the first tile, 1 to 16, and in the second one.
  void shape(int64_t first, int64_t second) {
    second = std::max<int64_t>(1, second);
    if (first == first_ && second == second_) return;
    TileShape shape;
    for (int t = 0; t < 8; ++t) {
      shape.row_bytes[t] = kLineBytes;
      const int64_t rows = t >= 6 ? kAmxTileRows : t == 0 || t == 1 || t == 4 ? first : second;
      shape.rows[t] = static_cast<uint8_t>(rows);
    }
    T::Configure(shape);
    first_ = first;
    second_ = second;
  }

private:
  int64_t first_ = 0, second_ = 0;
};

// Lines that are read soon, brought into the second-level cache meanwhile: `size` bytes from `from` and as many from `then`.
class Ahead {
public:
  Ahead() = default;
  Ahead(const uint8_t* from, const uint8_t* then, int64_t size, int64_t lines)
      : at_(from), end_(from + size), then_(then), size_(size), lines_(lines) {}

  // A part of them: in each step of a chain.
  HWY_INLINE void step() {
    for (int64_t i = 0; i < lines_; ++i, at_ += kLineBytes) {
      if (at_ == end_) {
        if (then_ == nullptr) return;
        at_ = then_;
        end_ = then_ + size_;
        then_ = nullptr;
      }
      __builtin_prefetch(at_, 0, 2);
    }
  }

private:
  const uint8_t *at_ = nullptr, *end_ = nullptr, *then_ = nullptr;
  int64_t size_ = 0, lines_ = 0;
};

// Rows of C are made this processor's own before they are stored, four in each step of a chain. A store waits for its line else,
// and all later ones behind it: 2048 x 3072 x 768 took 23 % longer.
class OwnRows {
public:
  OwnRows(float* c, int64_t stride, int64_t rows)
      : at_(c), end_(c + rows * stride), stride_(stride) {}

  HWY_INLINE void step() {
    for (int i = 0; i < 4 && at_ < end_; ++i, at_ += stride_) {
      __builtin_prefetch(at_, 1, 3);
      __builtin_prefetch(at_ + kPanel, 1, 3);
    }
  }

private:
  float *at_, *end_;
  int64_t stride_;
};

// Sums of up to 32 rows and P panels over `steps` tiles of k.
struct TileSums {
  const uint8_t* x; // of the first row, in its tile
  int64_t x_step;   // bytes to the tile of the rows below
  const uint8_t* b;
  int64_t panel_step;
  int64_t steps;
  int64_t lines; // of the panels in all; the last tile may have fewer than 16
};

template <class T, bool kInteger, int R, int P>
HWY_INLINE void TileStep(const uint8_t* x, int64_t x_step, const uint8_t* b, int64_t panel_step) {
  T::template Load<4>(x, kLineBytes);
  if constexpr (R == 2) T::template Load<5>(x + x_step, kLineBytes);
  T::template Load<6>(b, kLineBytes);
  if constexpr (P == 2) T::template Load<7>(b + panel_step, kLineBytes);
  T::template Dot<kInteger, 0, 4, 6>();
  if constexpr (P == 2) T::template Dot<kInteger, 1, 4, 7>();
  if constexpr (R == 2) T::template Dot<kInteger, 2, 5, 6>();
  if constexpr (R == 2 && P == 2) T::template Dot<kInteger, 3, 5, 7>();
}

// R tiles of rows x P panels. What is left of k comes through a copy of the panels with zeros behind; rows end with zeros.
template <class T, bool kInteger, int R, int P>
HWY_INLINE void TileChain(const TileSums& t, Ahead& ahead, OwnRows own) {
  // A store of a tile takes 250 ns more where none was in the last 600 ns (Xeon 6, measured): one that is not needed now and
  // then keeps it awake. Chains of 28 steps: 0.52 of the peak without, 0.68 with it.
  constexpr int64_t kStepsAwake = 8;
  alignas(64) uint8_t unused[kLineBytes];
  const uint8_t *x = t.x, *b = t.b;
  const int64_t whole = std::min(t.steps, t.lines / kAmxTileRows);
  for (int64_t i = 0; i < whole; ++i, x += kAmxTileBytes, b += kAmxTileBytes) {
    TileStep<T, kInteger, R, P>(x, t.x_step, b, t.panel_step);
    ahead.step();
    own.step();
    if (i % kStepsAwake == kStepsAwake - 1) T::template Store<6>(unused, 0);
  }
  if (whole == t.steps) return;
  alignas(64) uint8_t panels[P * kAmxTileBytes] = {};
  for (int64_t p = 0; p < P; ++p)
    std::copy_n(b + p * t.panel_step, t.lines % kAmxTileRows * kLineBytes,
                panels + p * kAmxTileBytes);
  TileStep<T, kInteger, R, P>(x, t.x_step, panels, kAmxTileBytes);
}

// Where the sums of a tile go: C, its rows and its columns.
struct TilePlace {
  float* c;
  int64_t c_stride, rows, columns;
  const float *scale, *bias; // of its first column, or null
  const int32_t* start;      // int8: of its first row
  const float* row_scale;    // int8
  bool load;                 // the sums begin with C: f32, or the integers of a part of k
  bool last;                 // the chain ends: else C takes the sums as they are
};

template <class T, bool kInteger, int kTile> HWY_INLINE void BeginTile(const TilePlace& p) {
  if (!p.load) return T::template Zero<kTile>();
  if (p.columns == kPanel)
    return T::template Load<kTile>(p.c, p.c_stride * static_cast<int64_t>(sizeof(float)));
  alignas(64) float c[kAmxTileRows * kPanel] = {};
  for (int64_t r = 0; r < p.rows; ++r)
    std::memcpy(c + r * kPanel, p.c + r * p.c_stride, static_cast<size_t>(p.columns) * 4);
  T::template Load<kTile>(c, kLineBytes);
}

// A line of a tile of sums.
using FloatLine = float __attribute__((vector_size(64)));
using WordLine = uint32_t __attribute__((vector_size(64)));
using IntegerLine = int32_t __attribute__((vector_size(64)));

template <class Line> HWY_INLINE void LoadLine(const void* from, int64_t columns, Line& line) {
  line = Line{};
  if (from == nullptr) return;
  // The size of a whole line is a constant, so that this is one instruction.
  if (columns == kPanel)
    std::memcpy(&line, from, sizeof line);
  else
    std::memcpy(&line, from, static_cast<size_t>(columns) * 4);
}

// Whether C takes the sums as they are.
template <bool kInteger> HWY_INLINE bool IsPlain(const TilePlace& p) {
  return !p.last || (!kInteger && p.scale == nullptr && p.bias == nullptr);
}

// Sums into C, or to `sums`, where FinishTile takes them up.
template <class T, bool kInteger, int kTile>
HWY_INLINE void EndTile(const TilePlace& p, float* sums) {
  if (IsPlain<kInteger>(p) && p.columns == kPanel)
    return T::template Store<kTile>(p.c, p.c_stride * static_cast<int64_t>(sizeof(float)));
  T::template Store<kTile>(sums, kLineBytes);
}

// The f32 operations after the sums, in the order of DotTile (dot-inl.h).
template <bool kInteger> HWY_INLINE void FinishTile(const TilePlace& p, const float* sums) {
  if (IsPlain<kInteger>(p)) {
    if (p.columns == kPanel) return;
    for (int64_t r = 0; r < p.rows; ++r)
      std::memcpy(p.c + r * p.c_stride, sums + r * kPanel, static_cast<size_t>(p.columns) * 4);
    return;
  }
  FloatLine scale, bias, y;
  LoadLine(p.scale, p.columns, scale);
  LoadLine(p.bias, p.columns, bias);
  for (int64_t r = 0; r < p.rows; ++r) {
    const float* line = sums + r * kPanel;
    if constexpr (kInteger) {
      // Sums of u8 weights may pass 32 bits; with the start they are those of i8 weights, which do not.
      WordLine exact;
      LoadLine(line, kPanel, exact);
      exact += static_cast<uint32_t>(p.start[r]);
      y = __builtin_convertvector((IntegerLine)exact, FloatLine) * p.row_scale[r];
    } else {
      LoadLine(line, kPanel, y);
    }
    if (p.scale != nullptr) y *= scale;
    if (p.bias != nullptr) y += bias;
    if (p.columns == kPanel)
      std::memcpy(p.c + r * p.c_stride, &y, sizeof y);
    else
      std::memcpy(p.c + r * p.c_stride, &y, static_cast<size_t>(p.columns) * 4);
  }
}

// A part of k of up to 32 rows, of which `first` are in the first tile, and P panels, the last of which may have fewer columns.
template <class T, bool kInteger, int P>
HWY_INLINE void TileBlock(const TileSums& t, const TilePlace& place, int64_t first, int64_t columns,
                          Ahead& ahead) {
  const bool two = place.rows > first;
  TilePlace parts[4] = {place, place, place, place};
  for (int i = 0; i < 4; ++i) {
    TilePlace& part = parts[i];
    const int64_t row = i / 2 * first, column = i % 2 * kPanel;
    part.c += row * part.c_stride + column;
    part.rows = i < 2 ? first : place.rows - first;
    part.columns = std::min(kPanel, columns - column);
    if (part.scale != nullptr) part.scale += column;
    if (part.bias != nullptr) part.bias += column;
    if (kInteger) part.start += row, part.row_scale += row;
  }
  BeginTile<T, kInteger, 0>(parts[0]);
  if constexpr (P == 2) BeginTile<T, kInteger, 1>(parts[1]);
  if (two) BeginTile<T, kInteger, 2>(parts[2]);
  if (two && P == 2) BeginTile<T, kInteger, 3>(parts[3]);
  const OwnRows own(place.c, place.c_stride, place.rows);
  if (two)
    TileChain<T, kInteger, 2, P>(t, ahead, own);
  else
    TileChain<T, kInteger, 1, P>(t, ahead, own);
  alignas(64) float sums[4][kAmxTileRows * kPanel];
  EndTile<T, kInteger, 0>(parts[0], sums[0]);
  if constexpr (P == 2) EndTile<T, kInteger, 1>(parts[1], sums[1]);
  if (two) EndTile<T, kInteger, 2>(parts[2], sums[2]);
  if (two && P == 2) EndTile<T, kInteger, 3>(parts[3], sums[3]);
  FinishTile<kInteger>(parts[0], sums[0]);
  if constexpr (P == 2) FinishTile<kInteger>(parts[1], sums[1]);
  if (two) FinishTile<kInteger>(parts[2], sums[2]);
  if (two && P == 2) FinishTile<kInteger>(parts[3], sums[3]);
}

// A part of k: tiles [begin, end).
struct TileSpan {
  int64_t begin, end, all;
};

// Rows [row_begin, row_end) and one or two panels.
template <class T, bool kInteger>
void TileRows(const Gemm& g, const RoundedRows& x, TileUse<T>& use, TileSpan span,
              int64_t row_begin, int64_t row_end, int64_t p, int64_t panels, Ahead ahead) {
  TileSums t{};
  t.panel_step = kPanel * line_bytes(g, g.b_chain > 0 ? g.b_chain : g.k);
  t.lines = (kInteger ? (g.k + 3) / 4 : (g.k + 1) / 2) - span.begin * kAmxTileRows;
  t.steps = span.end - span.begin;
  t.x_step = span.all * kAmxTileBytes;
  t.b = static_cast<const uint8_t*>(g.b) + p * t.panel_step + span.begin * kAmxTileBytes;
  TilePlace place{};
  place.c_stride = g.c_stride;
  place.load = g.accumulate || span.begin > 0;
  place.last = span.end == span.all;
  if (g.scale != nullptr) place.scale = g.scale + p * kPanel;
  if (g.bias != nullptr) place.bias = g.bias + p * kPanel;
  const int64_t columns = std::min(g.n - p * kPanel, panels * kPanel);
  for (int64_t row = row_begin; row < row_end; row += place.rows) {
    const int64_t in_tile = row % kAmxTileRows;
    place.rows = std::min(row_end - row, 2 * kAmxTileRows - in_tile);
    const int64_t first = std::min(place.rows, kAmxTileRows - in_tile);
    place.c = g.c + row * g.c_stride + p * kPanel;
    if (kInteger) place.start = x.start + row, place.row_scale = x.scale + row;
    t.x =
        x.data + row / kAmxTileRows * t.x_step + span.begin * kAmxTileBytes + in_tile * kLineBytes;
    // A second tile begins with the rows below, whatever the first one has.
    TileSums below = t;
    below.x_step -= in_tile * kLineBytes;
    use.shape(first, place.rows - first);
    if (panels == 2)
      TileBlock<T, kInteger, 2>(below, place, first, columns, ahead);
    else
      TileBlock<T, kInteger, 1>(below, place, first, columns, ahead);
  }
}

// As DotKernel::part. Weights with a scale per block are not for it: their sums end every 32 numbers.
//
// A block of rows stays in the second-level cache, of which it takes half, and meets the panels of a stripe two at a time. The
// next two are brought there meanwhile: what comes from farther away arrives at an eighth of the rate of the tiles.
template <class T, bool kInteger>
void TilePart(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t panel_begin,
              int64_t panel_end) {
  constexpr int64_t kRowBlock = 256, kStripe = 64, kSpan = 32, kBoth = 2 * kAmxTileRows;
  const RoundedRows x = rounded_rows(g);
  const int64_t steps = tile_steps(g),
                panel_step = kPanel * line_bytes(g, g.b_chain > 0 ? g.b_chain : g.k);
  TileUse<T> use;
  for (int64_t stripe = panel_begin; stripe < panel_end; stripe += kStripe) {
    const int64_t stripe_end = std::min(panel_end, stripe + kStripe);
    for (int64_t row = row_begin; row < row_end; row += kRowBlock) {
      const int64_t end = std::min(row_end, row + kRowBlock),
                    blocks = (end - row + kBoth - 1) / kBoth;
      int64_t from = 0;
      do {
        const int64_t to = steps - from > kSpan + kSpan / 2 ? from + kSpan : steps;
        const int64_t bytes = (to - from) * kAmxTileBytes;
        for (int64_t p = stripe; p < stripe_end; p += 2) {
          check_task(g.task);
          Ahead ahead;
          if (p + 4 <= stripe_end && blocks >= 2) {
            const uint8_t* next =
                static_cast<const uint8_t*>(g.b) + (p + 2) * panel_step + from * kAmxTileBytes;
            ahead = Ahead(next, next + panel_step, bytes, kBoth / blocks);
          }
          TileRows<T, kInteger>(g, x, use, {from, to, steps}, row, end, p,
                                std::min<int64_t>(2, stripe_end - p), ahead);
        }
        from = to;
      } while (from < steps);
    }
  }
}

// Four independent sums. Returns the multiply-adds done.
template <class T, bool kInteger> int64_t TileChains(int64_t rounds, float* sink) {
  alignas(64) uint8_t numbers[kAmxTileBytes];
  std::fill_n(numbers, sizeof numbers, static_cast<uint8_t>(*sink));
  TileUse<T> use;
  use.shape(kAmxTileRows, kAmxTileRows);
  T::template Zero<0>(), T::template Zero<1>(), T::template Zero<2>(), T::template Zero<3>();
  T::template Load<4>(numbers, kLineBytes), T::template Load<5>(numbers, kLineBytes);
  T::template Load<6>(numbers, kLineBytes), T::template Load<7>(numbers, kLineBytes);
  for (int64_t round = 0; round < rounds; ++round) {
    T::template Dot<kInteger, 0, 4, 6>(), T::template Dot<kInteger, 1, 4, 7>();
    T::template Dot<kInteger, 2, 5, 6>(), T::template Dot<kInteger, 3, 5, 7>();
  }
  alignas(64) float sums[kAmxTileRows * kPanel];
  T::template Store<3>(sums, kLineBytes);
  *sink = sums[0];
  return rounds * 4 * kAmxTileRows * kPanel * (kInteger ? 64 : 32);
}

} // namespace dllm::cpu::amx
