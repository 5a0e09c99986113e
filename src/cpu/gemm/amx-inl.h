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

inline constexpr int64_t kTileRows = 16;

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
    if (rows_ != 0) T::Release();
  }
  TileUse(const TileUse&) = delete;
  TileUse& operator=(const TileUse&) = delete;

  // rows: 1 to 32 of activations.
  void shape(int64_t rows) {
    if (rows == rows_) return;
    const auto first = static_cast<uint8_t>(std::min(rows, kTileRows));
    const auto second = static_cast<uint8_t>(std::max<int64_t>(1, rows - kTileRows));
    TileShape shape;
    for (int t = 0; t < 8; ++t) {
      shape.row_bytes[t] = kLineBytes;
      shape.rows[t] = t >= 6 ? kTileRows : t == 0 || t == 1 || t == 4 ? first : second;
    }
    T::Configure(shape);
    rows_ = rows;
  }

private:
  int64_t rows_ = 0;
};

// Sums of `rows` rows and P panels; of activations `lines` x 4 bytes a row.
struct TileSums {
  const uint8_t* x;
  int64_t x_stride;
  const uint8_t* b;
  int64_t panel_step;
  int64_t rows, lines;
};

template <class T, bool kInteger, int R, int P>
HWY_INLINE void TileStep(const uint8_t* x, int64_t x_stride, const uint8_t* b, int64_t panel_step) {
  T::template Load<4>(x, x_stride);
  T::template Load<6>(b, kLineBytes);
  T::template Dot<kInteger, 0, 4, 6>();
  if constexpr (P == 2) {
    T::template Load<7>(b + panel_step, kLineBytes);
    T::template Dot<kInteger, 1, 4, 7>();
  }
  if constexpr (R == 2) {
    T::template Load<5>(x + kTileRows * x_stride, x_stride);
    T::template Dot<kInteger, 2, 5, 6>();
    if constexpr (P == 2) T::template Dot<kInteger, 3, 5, 7>();
  }
}

// R tiles of rows x P panels. What is left of k comes through copies with zeros behind.
template <class T, bool kInteger, int R, int P> HWY_INLINE void TileChain(const TileSums& t) {
  const uint8_t *x = t.x, *b = t.b;
  int64_t left = t.lines;
  for (; left >= kTileRows; left -= kTileRows, x += kLineBytes, b += kTileRows * kLineBytes)
    TileStep<T, kInteger, R, P>(x, t.x_stride, b, t.panel_step);
  if (left == 0) return;
  constexpr int64_t kTileBytes = kTileRows * kLineBytes;
  alignas(64) uint8_t rows[R * kTileBytes] = {}, panels[P * kTileBytes] = {};
  for (int64_t r = 0; r < t.rows; ++r)
    std::copy_n(x + r * t.x_stride, left * 4, rows + r * kLineBytes);
  for (int64_t p = 0; p < P; ++p)
    std::copy_n(b + p * t.panel_step, left * kLineBytes, panels + p * kTileBytes);
  TileStep<T, kInteger, R, P>(rows, kLineBytes, panels, kTileBytes);
}

// Where the sums of a tile go: C, its rows and its columns.
struct TilePlace {
  float* c;
  int64_t c_stride, rows, columns;
  const float *scale, *bias; // of its first column, or null
  const int32_t* start;      // int8: of its first row
  const float* row_scale;    // int8
  bool load;                 // bf16: the sums begin with C
};

template <class T, bool kInteger, int kTile> HWY_INLINE void BeginTile(const TilePlace& p) {
  if (kInteger || !p.load) return T::template Zero<kTile>();
  if (p.columns == kPanel)
    return T::template Load<kTile>(p.c, p.c_stride * static_cast<int64_t>(sizeof(float)));
  alignas(64) float c[kTileRows * kPanel] = {};
  for (int64_t r = 0; r < p.rows; ++r) std::copy_n(p.c + r * p.c_stride, p.columns, c + r * kPanel);
  T::template Load<kTile>(c, kLineBytes);
}

// The f32 operations after the sums, in the order of DotTile (dot-inl.h).
template <class T, bool kInteger, int kTile> HWY_INLINE void EndTile(const TilePlace& p) {
  if (!kInteger && p.scale == nullptr && p.bias == nullptr && p.columns == kPanel)
    return T::template Store<kTile>(p.c, p.c_stride * static_cast<int64_t>(sizeof(float)));
  alignas(64) float sums[kTileRows * kPanel];
  T::template Store<kTile>(sums, kLineBytes);
  alignas(64) float scale[kPanel], bias[kPanel] = {};
  std::fill_n(scale, kPanel, 1.0f);
  if (p.scale != nullptr) std::copy_n(p.scale, p.columns, scale);
  if (p.bias != nullptr) std::copy_n(p.bias, p.columns, bias);
  for (int64_t r = 0; r < p.rows; ++r) {
    float* row = sums + r * kPanel;
    if constexpr (kInteger) {
      int32_t exact[kPanel];
      std::memcpy(exact, row, sizeof exact);
      const auto start = static_cast<uint32_t>(p.start[r]);
      const float row_scale = p.row_scale[r];
      for (int64_t j = 0; j < kPanel; ++j) {
        // Sums of u8 weights may pass 32 bits; with the start they are those of i8 weights, which do not.
        row[j] = static_cast<float>(static_cast<int32_t>(static_cast<uint32_t>(exact[j]) + start)) *
                 row_scale;
      }
    }
    if (p.scale != nullptr) {
      for (int64_t j = 0; j < kPanel; ++j) row[j] *= scale[j];
    }
    if (p.bias != nullptr) {
      for (int64_t j = 0; j < kPanel; ++j) row[j] += bias[j];
    }
    std::copy_n(row, p.columns, p.c + r * p.c_stride);
  }
}

// All k of up to 32 rows and P panels, the last of which may have fewer columns.
template <class T, bool kInteger, int P>
HWY_INLINE void TileBlock(const TileSums& t, const TilePlace& place, int64_t columns) {
  const bool two = t.rows > kTileRows;
  TilePlace parts[4] = {place, place, place, place};
  for (int i = 0; i < 4; ++i) {
    TilePlace& part = parts[i];
    const int64_t row = i / 2 * kTileRows, column = i % 2 * kPanel;
    part.c += row * part.c_stride + column;
    part.rows = std::min(kTileRows, t.rows - row);
    part.columns = std::min(kPanel, columns - column);
    if (part.scale != nullptr) part.scale += column;
    if (part.bias != nullptr) part.bias += column;
    if (kInteger) part.start += row, part.row_scale += row;
  }
  BeginTile<T, kInteger, 0>(parts[0]);
  if constexpr (P == 2) BeginTile<T, kInteger, 1>(parts[1]);
  if (two) BeginTile<T, kInteger, 2>(parts[2]);
  if (two && P == 2) BeginTile<T, kInteger, 3>(parts[3]);
  if (two)
    TileChain<T, kInteger, 2, P>(t);
  else
    TileChain<T, kInteger, 1, P>(t);
  EndTile<T, kInteger, 0>(parts[0]);
  if constexpr (P == 2) EndTile<T, kInteger, 1>(parts[1]);
  if (two) EndTile<T, kInteger, 2>(parts[2]);
  if (two && P == 2) EndTile<T, kInteger, 3>(parts[3]);
}

// Up to 32 rows and 2 panels.
template <class T, bool kInteger>
void TileRows(const Gemm& g, const RoundedRows& x, int64_t row, int64_t rows, int64_t p,
              int64_t panels) {
  TileSums t{};
  t.panel_step = kPanel * line_bytes(g, g.b_chain > 0 ? g.b_chain : g.k);
  t.lines = kInteger ? (g.k + 3) / 4 : (g.k + 1) / 2;
  t.x = x.data + row * x.stride;
  t.x_stride = x.stride;
  t.b = static_cast<const uint8_t*>(g.b) + p * t.panel_step;
  t.rows = rows;
  TilePlace place{};
  place.c = g.c + row * g.c_stride + p * kPanel;
  place.c_stride = g.c_stride;
  place.load = g.accumulate;
  if (g.scale != nullptr) place.scale = g.scale + p * kPanel;
  if (g.bias != nullptr) place.bias = g.bias + p * kPanel;
  if (kInteger) place.start = x.start + row, place.row_scale = x.scale + row;
  const int64_t columns = std::min(g.n - p * kPanel, panels * kPanel);
  if (panels == 2)
    TileBlock<T, kInteger, 2>(t, place, columns);
  else
    TileBlock<T, kInteger, 1>(t, place, columns);
}

// As DotKernel::part. Weights with a scale per block are not for it: their sums end every 32 numbers. Rows that stay in the
// second-level cache meet the panels of a stripe, which stay in the third-level one.
template <class T, bool kInteger>
void TilePart(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t panel_begin,
              int64_t panel_end) {
  constexpr int64_t kRowBlock = 128, kStripe = 64, kBoth = 2 * kTileRows;
  const RoundedRows x = rounded_rows(g);
  TileUse<T> use;
  for (int64_t stripe = panel_begin; stripe < panel_end; stripe += kStripe) {
    const int64_t stripe_end = std::min(panel_end, stripe + kStripe);
    for (int64_t first = row_begin; first < row_end; first += kRowBlock) {
      const int64_t end = std::min(row_end, first + kRowBlock);
      for (int64_t p = stripe; p < stripe_end; p += 2) {
        check_task(g.task);
        for (int64_t row = first; row < end; row += kBoth) {
          const int64_t rows = std::min(kBoth, end - row);
          use.shape(rows);
          TileRows<T, kInteger>(g, x, row, rows, p, std::min<int64_t>(2, stripe_end - p));
        }
      }
    }
  }
}

// Four independent sums. Returns the multiply-adds done.
template <class T, bool kInteger> int64_t TileChains(int64_t rounds, float* sink) {
  alignas(64) uint8_t numbers[kTileRows * kLineBytes];
  std::fill_n(numbers, sizeof numbers, static_cast<uint8_t>(*sink));
  TileUse<T> use;
  use.shape(2 * kTileRows);
  T::template Zero<0>(), T::template Zero<1>(), T::template Zero<2>(), T::template Zero<3>();
  T::template Load<4>(numbers, kLineBytes), T::template Load<5>(numbers, kLineBytes);
  T::template Load<6>(numbers, kLineBytes), T::template Load<7>(numbers, kLineBytes);
  for (int64_t round = 0; round < rounds; ++round) {
    T::template Dot<kInteger, 0, 4, 6>(), T::template Dot<kInteger, 1, 4, 7>();
    T::template Dot<kInteger, 2, 5, 6>(), T::template Dot<kInteger, 3, 5, 7>();
  }
  alignas(64) float sums[kTileRows * kPanel];
  T::template Store<3>(sums, kLineBytes);
  *sink = sums[0];
  return rounds * 4 * kTileRows * kPanel * (kInteger ? 64 : 32);
}

} // namespace dllm::cpu::amx
