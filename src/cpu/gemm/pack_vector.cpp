#include "cpu/gemm/pack_vector.h"

#include "base/threads/parallel.h"
#include "cpu/gemm/dot.h"
#include "cpu/gemm/quad.h"
#include "cpu/simd/targets.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm/pack_vector.cpp"
#include <hwy/foreach_target.h>

#include "cpu/gemm/bf16-inl.h"
#include "cpu/gemm/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

using U32 = hn::RebindToUnsigned<F32>;

// One row is read along all panels before the next row. Rows are pages apart, and the hardware
// prefetcher of a chip follows only a few pages. So a row is prefetched kRowsAhead rows before its
// use.
constexpr int64_t kRowsAhead = 4;

void PackRows(const float* source, int64_t stride, int64_t k, int64_t panels, float* to,
              int64_t panel_step) {
  const F32 d;
  for (int64_t i = 0; i < k; ++i) {
    const float* row = source + i * stride;
    const bool ahead = i + kRowsAhead < k;
    for (int64_t p = 0; p < panels; ++p) {
      const float* at = row + p * kPanel;
      if (ahead) __builtin_prefetch(at + kRowsAhead * stride);
      float* line = to + p * panel_step + i * kPanel;
      for (int64_t j = 0; j < kPanel; j += kLanes) hn::StoreU(hn::LoadU(d, at + j), d, line + j);
    }
  }
}

void PairRows(const float* source, int64_t stride, int64_t k, int64_t panels, uint16_t* to,
              int64_t panel_step) {
  const F32 d;
  const U32 d32;
  for (int64_t i = 0; i < k; i += 2) {
    const float* low = source + i * stride;
    const bool two = i + 1 < k, ahead = i + kRowsAhead + 1 < k;
    for (int64_t p = 0; p < panels; ++p) {
      const float* at = low + p * kPanel;
      if (ahead) {
        __builtin_prefetch(at + kRowsAhead * stride);
        __builtin_prefetch(at + (kRowsAhead + 1) * stride);
      }
      uint16_t* line = to + p * panel_step + i * kPanel;
      for (int64_t j = 0; j < kPanel; j += kLanes) {
        const auto first = hn::ShiftRight<16>(RoundToBf16(hn::LoadU(d, at + j)));
        const auto second = two ? RoundToBf16(hn::LoadU(d, at + stride + j)) : hn::Zero(d32);
        hn::StoreU(hn::Or(first, second), d32, reinterpret_cast<uint32_t*>(line + 2 * j));
      }
    }
  }
}

#if DLLM_HAS_LINES
// Prefetches a later part of the row. The hardware prefetcher of a chip follows fewer than sixteen
// rows.
HWY_INLINE void PrefetchLine(const float* row) {
  constexpr int64_t kNumbersAhead = 128;
  __builtin_prefetch(row + kNumbersAhead);
}

// Pack blocks of 16 rows and return the number of k that are done. A block has 16 numbers per row,
// or 32 as pairs, and fills one kilobyte of the panel.
int64_t PackBlocks(const float* source, int64_t stride, int64_t k, float* panel) {
  int64_t begin = 0;
  for (; begin + kPanel <= k; begin += kPanel) {
    DLLM_UNROLL for (int64_t j = 0; j < kPanel; ++j) PrefetchLine(source + j * stride + begin);
    TransposeSquare(source + begin, stride, panel + begin * kPanel, kPanel);
  }
  return begin;
}

int64_t PairBlocks(const float* source, int64_t stride, int64_t k, uint16_t* panel) {
  constexpr int64_t kBlock = 2 * kPanel;
  const F32 d;
  const hn::Repartition<uint16_t, F32> d16;
  int64_t begin = 0;
  for (; begin + kBlock <= k; begin += kBlock) {
    Line lines[kPanel];
    DLLM_UNROLL for (int64_t j = 0; j < kPanel; ++j) {
      const float* row = source + j * stride + begin;
      PrefetchLine(row);
      PrefetchLine(row + kPanel);
      const auto low = hn::BitCast(d16, RoundToBf16(hn::LoadU(d, row)));
      const auto high = hn::BitCast(d16, RoundToBf16(hn::LoadU(d, row + kPanel)));
      const auto pairs = hn::ConcatOdd(d16, high, low); // takes the upper halves
      std::memcpy(&lines[j], &pairs, sizeof pairs);
    }
    Transpose(lines);
    std::memcpy(panel + begin * kPanel, lines, sizeof lines);
  }
  return begin;
}
#else
int64_t PackBlocks(const float*, int64_t, int64_t, float*) {
  return 0;
}
int64_t PairBlocks(const float*, int64_t, int64_t, uint16_t*) {
  return 0;
}
#endif

// Packs 16 rows with PackBlocks, and the remaining numbers in pieces of four rows. Sixteen rows
// that are a page apart would evict each other from the first-level cache.
int64_t PackColumns(const float* source, int64_t stride, int64_t k, float* panel) {
  const int64_t end = k / 4 * 4, begin = PackBlocks(source, stride, k, panel);
  for (int64_t j = 0; j < kPanel; j += 4) {
    for (int64_t i = begin; i < end; i += 4)
      transpose_quad(source + j * stride + i, stride, panel + i * kPanel + j);
  }
  return end;
}

// Packs 16 rows with PairBlocks. The remaining numbers are rounded to pairs in pieces, which are
// then transposed.
int64_t PairColumns(const float* source, int64_t stride, int64_t k, uint16_t* panel) {
  constexpr int64_t kPairs = 32;
  const int64_t end = k / 8 * 8;
  alignas(64) uint32_t made[kPanel][kPairs];
  for (int64_t begin = PairBlocks(source, stride, k, panel); begin < end; begin += 2 * kPairs) {
    const int64_t pairs = std::min(kPairs, (end - begin) / 2);
    for (int64_t j = 0; j < kPanel; ++j) {
      const float* row = source + j * stride + begin;
      for (int64_t i = 0; i < pairs; i += 4) {
        const Quad a = load_quad(row + 2 * i), b = load_quad(row + 2 * i + 4);
        const Quad four = bf16_pairs(__builtin_shufflevector(a, b, 0, 2, 4, 6),
                                     __builtin_shufflevector(a, b, 1, 3, 5, 7));
        std::memcpy(&made[j][i], &four, sizeof four);
      }
    }
    alignas(64) uint32_t lines[kPairs * kPanel];
    for (int64_t j = 0; j < kPanel; j += 4) {
      for (int64_t i = 0; i < pairs; i += 4)
        transpose_quad(&made[j][i], kPairs, lines + i * kPanel + j);
    }
    std::memcpy(panel + begin * kPanel, lines, static_cast<size_t>(pairs * kLineBytes));
  }
  return end;
}

// Transposes whole squares first, then the remaining rows and columns.
void TransposeRows(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
                   int64_t to_stride) {
  constexpr int64_t kSquare = 16;
  const int64_t whole_rows = rows / kSquare * kSquare, whole = columns / kSquare * kSquare;
  for (int64_t i = 0; i < whole_rows; i += kSquare) {
    for (int64_t j = 0; j < whole; j += kSquare)
      TransposeSquare(from + i * stride + j, stride, to + j * to_stride + i, to_stride);
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = i < whole_rows ? whole : 0; j < columns; ++j)
      to[j * to_stride + i] = from[i * stride + j];
  }
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace dllm::cpu {

HWY_EXPORT(PackColumns);
HWY_EXPORT(PackRows);
HWY_EXPORT(PairColumns);
HWY_EXPORT(PairRows);
HWY_EXPORT(TransposeRows);

namespace {

// Calls f(first panel, panels, first row, rows) for pieces of about 40 us. A piece has up to 32
// panels, so that long parts of a row are read, and an even number of rows before the last.
template <class F> void each_piece(int64_t panels, int64_t k, const Workers& pool, const F& f) {
  constexpr int64_t kPanels = 32, kRows = 256;
  const int64_t across = (panels + kPanels - 1) / kPanels, down = (k + kRows - 1) / kRows;
  parallel(pool, across * down, [&](int64_t piece) {
    const int64_t first = piece % across * kPanels, row = piece / across * kRows;
    f(first, std::min(kPanels, panels - first), row, std::min(kRows, k - row));
  });
}

} // namespace

void pack_rows(const float* source, int64_t stride, int64_t k, int64_t panels, float* to,
               int64_t panel_step, const Workers& pool) {
  each_piece(panels, k, pool, [&](int64_t first, int64_t count, int64_t row, int64_t rows) {
    HWY_DYNAMIC_DISPATCH(PackRows)
    (source + first * kPanel + row * stride, stride, rows, count,
     to + first * panel_step + row * kPanel, panel_step);
  });
}
void pair_rows(const float* source, int64_t stride, int64_t k, int64_t panels, uint16_t* to,
               int64_t panel_step, const Workers& pool) {
  each_piece(panels, k, pool, [&](int64_t first, int64_t count, int64_t row, int64_t rows) {
    HWY_DYNAMIC_DISPATCH(PairRows)
    (source + first * kPanel + row * stride, stride, rows, count,
     to + first * panel_step + row * kPanel, panel_step);
  });
}
int64_t pack_columns(const float* source, int64_t stride, int64_t k, float* panel) {
  return HWY_DYNAMIC_DISPATCH(PackColumns)(source, stride, k, panel);
}
int64_t pair_columns(const float* source, int64_t stride, int64_t k, uint16_t* panel) {
  return HWY_DYNAMIC_DISPATCH(PairColumns)(source, stride, k, panel);
}

void transpose(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to,
               int64_t to_stride, const Workers& pool) {
  constexpr int64_t kRows = 256, kColumns = 64; // a piece of 64 KB
  const int64_t across = (columns + kColumns - 1) / kColumns, down = (rows + kRows - 1) / kRows;
  parallel(pool, across * down, [&](int64_t piece) {
    const int64_t column = piece / down * kColumns, row = piece % down * kRows;
    HWY_DYNAMIC_DISPATCH(TransposeRows)
    (from + row * stride + column, stride, std::min(kRows, rows - row),
     std::min(kColumns, columns - column), to + column * to_stride + row, to_stride);
  });
}

} // namespace dllm::cpu
#endif
