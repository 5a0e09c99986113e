#include "cpu/gemm/expand.h"

#include "base/threads/parallel.h"
#include "cpu/gemm/dot.h"
#include "cpu/simd/targets.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm/expand.cpp"
#include <hwy/foreach_target.h>

#include "cpu/gemm/bf16-inl.h"
#include "cpu/gemm/lanes-inl.h"
#include "cpu/gemm/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

constexpr int kLineVectors = static_cast<int>(kPanel / kLanes);
constexpr int64_t kPiece = 16; // columns that are read together; every block has whole pieces

// Readers of a piece of 16 columns of a panel. Begin() returns what a vector of rows keeps during
// the piece, and At() its numbers in column `begin` + i.
template <class L> struct BlockReader {
  using State = typename L::State;
  static HWY_INLINE const uint8_t* Block(const uint8_t* panel, int64_t column) {
    return panel + column / L::kBlock * L::kBytes;
  }
  static HWY_INLINE State Begin(const uint8_t* panel, int64_t, int64_t begin, int64_t lane) {
    return L::Begin(Block(panel, begin), begin % L::kBlock / L::kGroup, lane);
  }
  static HWY_INLINE V At(State state, const uint8_t* panel, int64_t, int64_t begin, int64_t i,
                         int64_t lane) {
    const int64_t at = begin + i, in_block = at % L::kBlock;
    return L::At(state, Block(panel, at), in_block / L::kGroup, in_block % L::kGroup, lane);
  }
};

// int8 in [k][16].
struct ByteReader {
  using State = int;
  static HWY_INLINE State Begin(const uint8_t*, int64_t, int64_t, int64_t) { return 0; }
  static HWY_INLINE V At(State, const uint8_t* panel, int64_t, int64_t begin, int64_t i,
                         int64_t lane) {
    return LoadWeights(reinterpret_cast<const int8_t*>(panel + (begin + i) * kPanel + lane));
  }
};

// Returns column `at` of quads (dot.h), which begin at `quads`.
HWY_INLINE V LoadQuadBytes(const uint8_t* quads, int64_t at, int64_t lane) {
  const hn::RebindToUnsigned<D> words;
  const uint8_t* line = quads + at / 4 * kLineBytes + lane * 4;
  const auto four = hn::LoadU(words, reinterpret_cast<const uint32_t*>(line));
  const auto byte =
      hn::And(hn::ShiftRightSame(four, static_cast<int>(at % 4 * 8)), hn::Set(words, 255u));
  const hn::RebindToSigned<D> numbers;
  return hn::ConvertTo(D(), hn::Sub(hn::BitCast(numbers, byte), hn::Set(numbers, 128)));
}

struct QuadReader {
  using State = int;
  static HWY_INLINE State Begin(const uint8_t*, int64_t, int64_t, int64_t) { return 0; }
  static HWY_INLINE V At(State, const uint8_t* panel, int64_t, int64_t begin, int64_t i,
                         int64_t lane) {
    return LoadQuadBytes(panel, begin + i, lane);
  }
};

// q8_0 in quads: the scales of all blocks, then the bytes.
struct ScaledQuadReader {
  static constexpr int64_t kBlock = 32;
  using State = V;
  static HWY_INLINE State Begin(const uint8_t* panel, int64_t, int64_t begin, int64_t lane) {
    return LoadHalves(panel + (begin / kBlock * kPanel + lane) * 2);
  }
  static HWY_INLINE V At(State scale, const uint8_t* panel, int64_t columns, int64_t begin,
                         int64_t i, int64_t lane) {
    const uint8_t* quads = panel + columns / kBlock * kPanel * 2;
    return hn::Mul(LoadQuadBytes(quads, begin + i, lane), scale);
  }
};

// Writes the columns [begin, end) of a panel as lines of pairs.
template <class R>
void RowsWith(const uint8_t* panel, int64_t columns, int64_t begin, int64_t end, uint16_t* to) {
  const hn::RebindToUnsigned<D> words;
  for (int64_t piece = begin; piece < end; piece += kPiece) {
    const int64_t count = std::min(kPiece, end - piece);
    DLLM_UNROLL for (int j = 0; j < kLineVectors; ++j) {
      const int64_t lane = j * kLanes;
      const typename R::State state = R::Begin(panel, columns, piece, lane);
      for (int64_t i = 0; i < count; i += 2) {
        const V low = R::At(state, panel, columns, piece, i, lane);
        const V high =
            i + 1 < count ? R::At(state, panel, columns, piece, i + 1, lane) : hn::Zero(D());
        const auto pairs = hn::Or(hn::ShiftRight<16>(RoundToBf16(low)), RoundToBf16(high));
        hn::StoreU(pairs, words, reinterpret_cast<uint32_t*>(to + (piece + i) * kPanel) + lane);
      }
    }
  }
}

// Writes the columns [begin, end) of a panel as lines of f32.
template <class R>
void FloatsWith(const uint8_t* panel, int64_t columns, int64_t begin, int64_t end, float* to) {
  for (int64_t piece = begin; piece < end; piece += kPiece) {
    const int64_t count = std::min(kPiece, end - piece);
    DLLM_UNROLL for (int j = 0; j < kLineVectors; ++j) {
      const int64_t lane = j * kLanes;
      const typename R::State state = R::Begin(panel, columns, piece, lane);
      for (int64_t i = 0; i < count; ++i)
        hn::StoreU(R::At(state, panel, columns, piece, i, lane), D(),
                   to + (piece + i) * kPanel + lane);
    }
  }
}

// Writes the 16 rows of a panel, columns [begin, end), as lines [0, rows) of the panels of the
// transpose, which are `step` numbers apart.
template <class R>
void TurnedFloatsWith(const uint8_t* panel, int64_t columns, int64_t begin, int64_t end,
                      int64_t rows, float* to, int64_t step) {
  alignas(64) float numbers[kPiece * kPanel], lines[kPiece * kPanel];
  for (int64_t piece = begin; piece < end; piece += kPiece, to += step) {
    const int64_t count = std::min(kPiece, end - piece);
    if (count < kPiece) std::fill_n(numbers, kPiece * kPanel, 0.0f);
    DLLM_UNROLL for (int j = 0; j < kLineVectors; ++j) {
      const int64_t lane = j * kLanes;
      const typename R::State state = R::Begin(panel, columns, piece, lane);
      for (int64_t i = 0; i < count; ++i)
        hn::StoreU(R::At(state, panel, columns, piece, i, lane), D(), numbers + i * kPanel + lane);
    }
    float* whole = rows == kPanel ? to : lines;
    TransposeSquare(numbers, kPanel, whole, kPanel);
    if (rows < kPanel) std::copy_n(lines, rows * kPanel, to);
  }
}

// The same as pairs of bf16. Two rows are a word, so a piece is 16 columns of 8 words.
template <class R>
void TurnedPairsWith(const uint8_t* panel, int64_t columns, int64_t begin, int64_t end,
                     int64_t rows, uint16_t* to, int64_t step) {
  constexpr int64_t kWords = kPanel / 2;
  const hn::Rebind<uint16_t, D> halves;
  const hn::RebindToSigned<D> words;
  alignas(64) uint16_t numbers[kPiece * kPanel];
  alignas(64) uint32_t lines[kWords * kPanel];
  for (int64_t piece = begin; piece < end; piece += kPiece, to += step) {
    const int64_t count = std::min(kPiece, end - piece);
    if (count < kPiece) std::fill_n(numbers, kPiece * kPanel, uint16_t{0});
    DLLM_UNROLL for (int j = 0; j < kLineVectors; ++j) {
      const int64_t lane = j * kLanes;
      const typename R::State state = R::Begin(panel, columns, piece, lane);
      for (int64_t i = 0; i < count; ++i) {
        const auto upper = RoundToBf16(R::At(state, panel, columns, piece, i, lane));
        hn::StoreU(hn::DemoteTo(halves, hn::BitCast(words, hn::ShiftRight<16>(upper))), halves,
                   numbers + i * kPanel + lane);
      }
    }
    uint32_t* whole = rows == kPanel ? reinterpret_cast<uint32_t*>(to) : lines;
    const auto* from = reinterpret_cast<const uint32_t*>(numbers);
    for (int64_t i = 0; i < kPiece; i += 4) {
      for (int64_t j = 0; j < kWords; j += 4)
        transpose_quad(from + i * kWords + j, kWords, whole + j * kPanel + i);
    }
    if (rows < kPanel) std::memcpy(to, lines, static_cast<size_t>((rows + 1) / 2 * kLineBytes));
  }
}

// Calls f with a reader of the panels of a form.
template <class F, class... L> void ForBlocks(std::string_view name, const F& f, std::tuple<L...>) {
  static_cast<void>(((name == L::kFormat && (f(BlockReader<L>()), true)) || ...));
}
template <class F> void ForReader(const PanelForm& form, const F& f) {
  const bool quads = form.layout == PanelLayout::quads;
  if (form.format == nullptr) return quads ? f(QuadReader()) : f(ByteReader());
  if (quads) return f(ScaledQuadReader());
  ForBlocks(form.format->name, f, BlockLanes());
}

void ExpandRows(const PanelForm& form, const uint8_t* panel, int64_t columns, int64_t begin,
                int64_t end, uint16_t* to) {
  ForReader(form, [&](auto reader) { RowsWith<decltype(reader)>(panel, columns, begin, end, to); });
}
void ExpandRowFloats(const PanelForm& form, const uint8_t* panel, int64_t columns, int64_t begin,
                     int64_t end, float* to) {
  ForReader(form,
            [&](auto reader) { FloatsWith<decltype(reader)>(panel, columns, begin, end, to); });
}
void ExpandFloats(const PanelForm& form, const uint8_t* panel, int64_t columns, int64_t begin,
                  int64_t end, int64_t rows, float* to, int64_t step) {
  ForReader(form, [&](auto reader) {
    TurnedFloatsWith<decltype(reader)>(panel, columns, begin, end, rows, to, step);
  });
}
void ExpandPairs(const PanelForm& form, const uint8_t* panel, int64_t columns, int64_t begin,
                 int64_t end, int64_t rows, uint16_t* to, int64_t step) {
  ForReader(form, [&](auto reader) {
    TurnedPairsWith<decltype(reader)>(panel, columns, begin, end, rows, to, step);
  });
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace dllm::cpu {

HWY_EXPORT(ExpandRows);
HWY_EXPORT(ExpandRowFloats);
HWY_EXPORT(ExpandFloats);
HWY_EXPORT(ExpandPairs);

namespace {

constexpr int64_t kColumns = 2048; // of a panel in one chunk, about 20 us

// Calls f(panel, first column, end) for pieces of the panels [first, first + count) of a source.
template <class F>
void each_part(int64_t panels, int64_t begin, int64_t end, const Workers& pool, const F& f) {
  const int64_t across = (end - begin + kColumns - 1) / kColumns;
  parallel(pool, panels * across, [&](int64_t chunk) {
    const int64_t column = begin + chunk % across * kColumns;
    f(chunk / across, column, std::min(end, column + kColumns));
  });
}

} // namespace

int64_t turned_columns(const PanelForm& form) {
  return form.format == nullptr ? kPanel : std::max(kPanel, form.format->block);
}

void expand_rows(const PanelSource& source, int64_t first, int64_t count, PanelLayout layout,
                 std::byte* to, const Workers& pool) {
  const int64_t bytes = kPanel * source.form.line_bytes(source.columns);
  const int64_t step = kPanel * PanelForm{DType::f32, nullptr, layout}.line_bytes(source.columns);
  each_part(count, 0, source.columns, pool, [&](int64_t panel, int64_t begin, int64_t end) {
    const auto* from = reinterpret_cast<const uint8_t*>(source.panels) + (first + panel) * bytes;
    std::byte* made = to + panel * step;
    if (layout == PanelLayout::pairs) HWY_DYNAMIC_DISPATCH(ExpandRows)
    (source.form, from, source.columns, begin, end, reinterpret_cast<uint16_t*>(made));
    else HWY_DYNAMIC_DISPATCH(ExpandRowFloats)(source.form, from, source.columns, begin, end,
                                               reinterpret_cast<float*>(made));
  });
}

void expand_turned(const PanelSource& source, int64_t begin, int64_t count, PanelLayout layout,
                   std::byte* to, const Workers& pool) {
  const int64_t bytes = kPanel * source.form.line_bytes(source.columns);
  const bool pairs = layout == PanelLayout::pairs;
  const int64_t step = kPanel * (pairs ? (source.rows + 1) / 2 * 2 : source.rows);
  each_part(panel_count(source.rows), begin, begin + count, pool,
            [&](int64_t panel, int64_t first, int64_t end) {
              const auto* from = reinterpret_cast<const uint8_t*>(source.panels) + panel * bytes;
              const int64_t rows = std::min(kPanel, source.rows - panel * kPanel);
              const int64_t at = (first - begin) / kPanel * step + panel * kPanel * kPanel;
              if (pairs) HWY_DYNAMIC_DISPATCH(ExpandPairs)
              (source.form, from, source.columns, first, end, rows,
               reinterpret_cast<uint16_t*>(to) + at, step);
              else HWY_DYNAMIC_DISPATCH(ExpandFloats)(source.form, from, source.columns, first, end,
                                                      rows, reinterpret_cast<float*>(to) + at,
                                                      step);
            });
}

} // namespace dllm::cpu
#endif
