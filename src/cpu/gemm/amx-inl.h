// Products of pairs and quads on a unit that multiplies tiles. It multiplies 16 rows x 64 bytes of
// activations by 16 lines of a panel. The template parameter T is the unit:
//
//   Configure(shape), Release()  set and release the tiles of the calling thread
//   Load<t>, Zero<t>, Store<t>   load, clear or store a tile, whose rows are `stride` bytes apart
//   LoadOnce<t>                  as Load, for data that is not read again soon; it does not
//                                replace other data in the first-level cache
//   Dot<kInteger, c, a, b>       tile c += tile a x tile b, f32 sums of bf16 pairs
//                                or int32 sums of i8 x u8
//
// dot_amx.cpp has the unit with AMX instructions. tests/unit/cpu/kernels/emulated_tiles.h has a
// unit in plain C++. Tiles 0 to 3 are sums, 4 and 5 are rows of activations, 6 and 7 are lines of
// panels.
//
// Include this header after cpu/gemm/dot.h, where the instructions are switched on. The loops are
// templates over T, so a program may contain both units.

namespace dllm::cpu::amx {

// The configuration that the instruction ldtilecfg reads.
struct TileShape {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileShape) == 64);

// TileUse configures the tiles of the calling thread during a part of a product. It configures them
// when the number of rows changes, and releases them in its destructor.
template <class T> class TileUse {
public:
  TileUse() = default;
  ~TileUse() {
    if (first_ != 0) T::Release();
  }
  TileUse(const TileUse&) = delete;
  TileUse& operator=(const TileUse&) = delete;

  // Sets the rows of activations in the first tile, 1 to 16, and in the second tile.
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

// Ahead prefetches lines into the second-level cache that are read soon. They are `size` bytes at
// `from` and `size` bytes at `then`.
class Ahead {
public:
  Ahead() = default;
  Ahead(const uint8_t* from, const uint8_t* then, int64_t size, int64_t lines)
      : at_(from), end_(from + size), then_(then), size_(size), lines_(lines) {}

  // Prefetches the next lines. It is called in each step of a chain.
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

// RowsOfC prefetches rows of C into the second-level cache before they are stored, four in each
// step of a chain. Without it a store waits for its line, and all later stores wait too. Then 2048
// x 4864 x 896 in int8 took 2.3 times as long. The first-level cache is not the target, because the
// loads of tiles need its line buffers (6 % of 256 x 896 x 896 in int8).
class RowsOfC {
public:
  RowsOfC(const float* c, int64_t stride, int64_t rows)
      : at_(c), end_(c + rows * stride), stride_(stride) {}

  HWY_INLINE void step() {
    for (int i = 0; i < 4 && at_ < end_; ++i, at_ += stride_) {
      __builtin_prefetch(at_, 0, 2);
      __builtin_prefetch(at_ + kPanel, 0, 2);
    }
  }

private:
  const float *at_, *end_;
  int64_t stride_;
};

// The operands of sums of up to 32 rows and P panels over `steps` tiles of k.
struct TileSums {
  const uint8_t* x; // the first row, in its tile
  int64_t x_step;   // bytes to the tile of the next 16 rows
  const uint8_t* b;
  int64_t panel_step;
  int64_t steps;
  int64_t lines; // lines left in the panels; the last tile may have fewer than 16
};

template <class T, bool kInteger, int R, int P>
HWY_INLINE void TileStep(const uint8_t* x, int64_t x_step, const uint8_t* b, int64_t panel_step) {
  T::template LoadOnce<4>(x, kLineBytes);
  if constexpr (R == 2) T::template LoadOnce<5>(x + x_step, kLineBytes);
  T::template Load<6>(b, kLineBytes);
  if constexpr (P == 2) T::template Load<7>(b + panel_step, kLineBytes);
  T::template Dot<kInteger, 0, 4, 6>();
  if constexpr (P == 2) T::template Dot<kInteger, 1, 4, 7>();
  if constexpr (R == 2) T::template Dot<kInteger, 2, 5, 6>();
  if constexpr (R == 2 && P == 2) T::template Dot<kInteger, 3, 5, 7>();
}

// The destination of the sums of a block, up to 32 rows of C and the columns of up to two panels.
struct BlockPlace {
  float* c;
  int64_t c_stride, rows, columns;
  const float *scale, *bias; // at the first column, or null
  const int32_t* start;      // at the first row; int8 only
  const float* row_scale;    // at the first row; int8 only
  bool load; // the sums begin with C, which has f32 or the integers of the earlier part of k
  bool last; // the chain ends; otherwise C takes the sums without further operations
};

// Returns true if C takes the sums without further operations.
template <bool kInteger> HWY_INLINE bool IsPlain(const BlockPlace& p) {
  return !p.last || (!kInteger && p.scale == nullptr && p.bias == nullptr);
}

// Lines of a tile of sums.
using FloatLine = float __attribute__((vector_size(64)));
using WordLine = uint32_t __attribute__((vector_size(64)));
using IntegerLine = int32_t __attribute__((vector_size(64)));

template <class Line> HWY_INLINE void LoadLine(const void* from, int64_t columns, Line& line) {
  line = Line{};
  // The size of a whole line is constant, so the copy is one instruction.
  if (columns >= kPanel)
    std::memcpy(&line, from, sizeof line);
  else
    std::memcpy(&line, from, static_cast<size_t>(columns) * 4);
}
template <class Line> HWY_INLINE void StoreLine(const Line& line, int64_t columns, void* to) {
  if (columns >= kPanel)
    std::memcpy(to, &line, sizeof line);
  else
    std::memcpy(to, &line, static_cast<size_t>(columns) * 4);
}

// BlockEnd finishes the sums of a block and writes them to C. It works during the chain of the next
// block, a few rows in each step. So vector instructions run while the unit multiplies tiles.
template <bool kInteger> class BlockEnd {
public:
  static constexpr int64_t kColumns = 2 * kPanel, kRows = 2 * kAmxTileRows;
  // Bytes of a line.
  static constexpr int64_t kStride = kColumns * static_cast<int64_t>(sizeof(float));

  // Returns memory for the sums, whose rows are kStride bytes apart. REQUIRES: the previous block
  // is finished.
  float* sums() { return sums_; }

  // Begins to finish the sums that were written to sums(). The next chain has `steps` steps.
  void begin(const BlockPlace& place, int64_t steps) {
    place_ = place;
    next_ = 0;
    share_ = (place.rows + steps - 1) / steps;
  }
  HWY_INLINE void step() {
    for (const int64_t end = std::min(place_.rows, next_ + share_); next_ < end; ++next_)
      finish(next_);
  }
  // Finishes the remaining rows.
  HWY_INLINE void end() {
    for (; next_ < place_.rows; ++next_) finish(next_);
  }

private:
  HWY_INLINE void finish(int64_t r) const {
    for (int64_t j = 0; j < place_.columns; j += kPanel) {
      const int64_t columns = place_.columns - j;
      FloatLine y;
      end_line(r, j, columns, y);
      StoreLine(y, columns, place_.c + r * place_.c_stride + j);
    }
  }

  // Applies the f32 operations that follow the sums, in the order of DotTile (dot-inl.h).
  HWY_INLINE void end_line(int64_t r, int64_t j, int64_t columns, FloatLine& y) const {
    FloatLine factor;
    if (!kInteger || IsPlain<kInteger>(place_)) {
      LoadLine(sums_ + r * kColumns + j, kPanel, y);
      if (IsPlain<kInteger>(place_)) return;
    } else {
      // Sums of u8 weights may wrap in 32 bits. With the start added they are sums of i8 weights,
      // which fit.
      WordLine exact;
      LoadLine(sums_ + r * kColumns + j, kPanel, exact);
      exact += static_cast<uint32_t>(place_.start[r]);
      y = __builtin_convertvector((IntegerLine)exact, FloatLine) * place_.row_scale[r];
    }
    if (place_.scale != nullptr) {
      LoadLine(place_.scale + j, columns, factor);
      y *= factor;
    }
    if (place_.bias != nullptr) {
      LoadLine(place_.bias + j, columns, factor);
      y += factor;
    }
  }

  alignas(64) float sums_[kRows * kColumns];
  BlockPlace place_{};
  int64_t next_ = 0, share_ = 0;
};

// Adds the products of R tiles of rows and P panels over a part of k. An incomplete last tile is
// read from a copy of the panels that is padded with zeros. Rows of activations end with zeros
// already.
template <class T, bool kInteger, int R, int P>
HWY_INLINE void TileChain(const TileSums& t, Ahead& ahead, RowsOfC c_rows,
                          BlockEnd<kInteger>& before) {
  // A store of a tile takes 250 ns more if there was no such store in the last 600 ns (measured on
  // Xeon 6). An unused store every few steps avoids it. Chains of 28 steps reach 0.52 of the peak
  // without and 0.68 with it.
  constexpr int64_t kStepsAwake = 8;
  alignas(64) uint8_t unused[kLineBytes];
  const uint8_t *x = t.x, *b = t.b;
  const int64_t whole = std::min(t.steps, t.lines / kAmxTileRows);
  for (int64_t i = 0; i < whole; ++i, x += kAmxTileBytes, b += kAmxTileBytes) {
    TileStep<T, kInteger, R, P>(x, t.x_step, b, t.panel_step);
    ahead.step();
    c_rows.step();
    before.step();
    if (i % kStepsAwake == kStepsAwake - 1) T::template Store<6>(unused, 0);
  }
  if (whole == t.steps) return;
  alignas(64) uint8_t panels[P * kAmxTileBytes] = {};
  for (int64_t p = 0; p < P; ++p)
    std::copy_n(b + p * t.panel_step, t.lines % kAmxTileRows * kLineBytes,
                panels + p * kAmxTileBytes);
  TileStep<T, kInteger, R, P>(x, t.x_step, panels, kAmxTileBytes);
}

// Sets a tile of sums to C or to zero. It begins `row` rows and `column` columns into its block.
template <class T, int kTile>
HWY_INLINE void BeginTile(const BlockPlace& p, int64_t row, int64_t rows, int64_t column) {
  if (!p.load) return T::template Zero<kTile>();
  const float* from = p.c + row * p.c_stride + column;
  const int64_t columns = p.columns - column;
  if (columns >= kPanel)
    return T::template Load<kTile>(from, p.c_stride * static_cast<int64_t>(sizeof(float)));
  alignas(64) float c[kAmxTileRows * kPanel] = {};
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(c + r * kPanel, from + r * p.c_stride, static_cast<size_t>(columns) * 4);
  T::template Load<kTile>(c, kLineBytes);
}

// Computes a part of k for up to 32 rows and P panels. `first` rows are in the first tile. The last
// panel may have fewer than 16 columns.
template <class T, bool kInteger, int P>
HWY_INLINE void TileBlock(const TileSums& t, const BlockPlace& place, int64_t first, Ahead& ahead,
                          BlockEnd<kInteger>& end) {
  const int64_t second = place.rows - first;
  BeginTile<T, 0>(place, 0, first, 0);
  if constexpr (P == 2) BeginTile<T, 1>(place, 0, first, kPanel);
  if (second > 0) BeginTile<T, 2>(place, first, second, 0);
  if (second > 0 && P == 2) BeginTile<T, 3>(place, first, second, kPanel);
  const RowsOfC c_rows(place.c, place.c_stride, place.rows);
  if (second > 0)
    TileChain<T, kInteger, 2, P>(t, ahead, c_rows, end);
  else
    TileChain<T, kInteger, 1, P>(t, ahead, c_rows, end);
  end.end();
  const bool straight = IsPlain<kInteger>(place) && place.columns == P * kPanel;
  float* const to = straight ? place.c : end.sums();
  const int64_t numbers = straight ? place.c_stride : BlockEnd<kInteger>::kColumns;
  const int64_t stride = numbers * static_cast<int64_t>(sizeof(float));
  T::template Store<0>(to, stride);
  if constexpr (P == 2) T::template Store<1>(to + kPanel, stride);
  if (second > 0) T::template Store<2>(to + first * numbers, stride);
  if (second > 0 && P == 2) T::template Store<3>(to + first * numbers + kPanel, stride);
  if (straight) return;
  end.begin(place, t.steps);
  if (!place.last) end.end(); // the next part of k begins with these sums
}

// A part of k, the tiles [begin, end) of `all` tiles.
struct TileSpan {
  int64_t begin, end, all;
};

// Computes a part of k for the rows [row_begin, row_end) and one or two panels.
template <class T, bool kInteger>
void TileRows(const Gemm& g, const RoundedRows& x, TileUse<T>& use, TileSpan span,
              int64_t row_begin, int64_t row_end, int64_t p, int64_t panels, Ahead ahead,
              BlockEnd<kInteger>& end) {
  TileSums t{};
  t.panel_step = kPanel * line_bytes(g, g.b_chain > 0 ? g.b_chain : g.k);
  t.lines = (kInteger ? (g.k + 3) / 4 : (g.k + 1) / 2) - span.begin * kAmxTileRows;
  t.steps = span.end - span.begin;
  t.x_step = span.all * kAmxTileBytes;
  t.b = static_cast<const uint8_t*>(g.b) + p * t.panel_step + span.begin * kAmxTileBytes;
  BlockPlace place{};
  place.c_stride = g.c_stride;
  place.load = g.accumulate || span.begin > 0;
  place.last = span.end == span.all;
  if (g.scale != nullptr) place.scale = g.scale + p * kPanel;
  if (g.bias != nullptr) place.bias = g.bias + p * kPanel;
  place.columns = std::min(g.n - p * kPanel, panels * kPanel);
  for (int64_t row = row_begin; row < row_end; row += place.rows) {
    const int64_t in_tile = row % kAmxTileRows;
    place.rows = std::min(row_end - row, 2 * kAmxTileRows - in_tile);
    const int64_t first = std::min(place.rows, kAmxTileRows - in_tile);
    place.c = g.c + row * g.c_stride + p * kPanel;
    if (kInteger) place.start = x.start + row, place.row_scale = x.scale + row;
    t.x =
        x.data + row / kAmxTileRows * t.x_step + span.begin * kAmxTileBytes + in_tile * kLineBytes;
    // The second tile begins at the next 16 rows, even if the first tile begins in the middle of 16
    // rows.
    TileSums below = t;
    below.x_step -= in_tile * kLineBytes;
    use.shape(first, place.rows - first);
    if (panels == 2)
      TileBlock<T, kInteger, 2>(below, place, first, ahead, end);
    else
      TileBlock<T, kInteger, 1>(below, place, first, ahead, end);
  }
}

// Computes a part of C, as DotKernel::part. REQUIRES: no scale per block, because such sums end
// every 32 numbers.
//
// A block of rows takes half of the second-level cache. It stays there while it is multiplied by
// the panels of a stripe, two panels at a time. The next two panels are prefetched into this cache
// meanwhile. Farther caches deliver only an eighth of the rate of the tiles.
template <class T, bool kInteger>
void TilePart(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t panel_begin,
              int64_t panel_end) {
  constexpr int64_t kRowBlock = 256, kStripe = 64, kSpan = 24, kBoth = 2 * kAmxTileRows;
  const RoundedRows x = rounded_rows(g);
  const int64_t steps = tile_steps(g),
                panel_step = kPanel * line_bytes(g, g.b_chain > 0 ? g.b_chain : g.k);
  TileUse<T> use;
  BlockEnd<kInteger> block_end;
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
                                std::min<int64_t>(2, stripe_end - p), ahead, block_end);
        }
        from = to;
      } while (from < steps);
    }
  }
  block_end.end();
}

// Computes four independent sums and returns the multiply-adds done.
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
