// Rounds activations to the forms that the kernels of bf16 and int8 read (dot.h). The header is
// included once per target.

#if defined(DLLM_CPU_GEMM_ROUND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_GEMM_ROUND_INL_H_
#undef DLLM_CPU_GEMM_ROUND_INL_H_
#else
#define DLLM_CPU_GEMM_ROUND_INL_H_
#endif

#include "cpu/gemm/bf16-inl.h"
#include "cpu/gemm/dot.h"
#include "cpu/gemm/quad.h"
#include "cpu/gemm/transpose-inl.h"
#include "cpu/simd/math-inl.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

using I32 = hn::RebindToSigned<F32>;
using U32 = hn::RebindToUnsigned<F32>;

// Returns one vector of x. The lanes after the first `left` numbers are zero.
HWY_INLINE hn::Vec<F32> LoadSome(const float* x, int64_t left) {
  if (left >= kLanes) return hn::LoadU(F32(), x);
  float some[kLanes] = {};
  std::copy_n(x, left, some);
  return hn::LoadU(F32(), some);
}

// Returns s = max|x| / 127. It is NaN when a number is not finite, and 0 when max|x| is at most
// 1e-30. The bits of |x| as integers have the order of |x|, with infinity and NaN above all
// numbers. Several maxima are computed at the same time.
float RowScale(const float* x, int64_t k) {
  constexpr int kChains = 4;
  using V = hn::Vec<I32>;
  const V magnitude = hn::Set(I32(), 0x7FFFFFFF);
  V most[kChains];
  DLLM_UNROLL for (int j = 0; j < kChains; ++j) most[j] = hn::Zero(I32());
  const auto add = [&](int j, hn::Vec<F32> v) HWY_ATTR {
    most[j] = hn::Max(most[j], hn::And(hn::BitCast(I32(), v), magnitude));
  };
  int64_t i = 0;
  for (; i + kChains * kLanes <= k; i += kChains * kLanes) {
    DLLM_UNROLL for (int j = 0; j < kChains; ++j) add(j, hn::LoadU(F32(), x + i + j * kLanes));
  }
  for (; i < k; i += kLanes) add(0, LoadSome(x + i, k - i));
  DLLM_UNROLL for (int j = 1; j < kChains; ++j) most[0] = hn::Max(most[0], most[j]);
  const float top = std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(I32(), most[0])));
  constexpr float kLeast = 1e-30f; // 127 / top is finite
  if (!std::isfinite(top)) return std::numeric_limits<float>::quiet_NaN();
  return top > kLeast ? top / 127.0f : 0.0f;
}

// Rounds one vector to integers, which are returned and written to `to` as bytes. Only numbers that
// are not finite are clamped to +-127.
HWY_INLINE hn::Vec<I32> QuantizeVector(hn::Vec<F32> v, hn::Vec<F32> inverse, uint8_t* to) {
  const hn::Rebind<int8_t, F32> d8;
  auto q = hn::NearestInt(hn::Mul(v, inverse));
  q = hn::Min(hn::Max(q, hn::Set(I32(), -127)), hn::Set(I32(), 127));
  hn::StoreU(hn::DemoteTo(d8, q), d8, reinterpret_cast<int8_t*>(to));
  return q;
}

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
// Rounds 64 numbers. They are narrowed in pairs, added as 16 bits, and put in order at the end.
HWY_INLINE void QuantizeLine(const float* x, hn::Vec<F32> inverse, uint8_t* to, hn::Vec<I32>& sum,
                             hn::Vec<I32>& other) {
  const auto whole = [&](int i) HWY_ATTR {
    return _mm512_cvtps_epi32(hn::Mul(hn::LoadU(F32(), x + 16 * i), inverse).raw);
  };
  const __m512i low = _mm512_packs_epi32(whole(0), whole(1)),
                high = _mm512_packs_epi32(whole(2), whole(3)), one = _mm512_set1_epi16(1);
  sum.raw = _mm512_add_epi32(sum.raw, _mm512_madd_epi16(low, one));
  other.raw = _mm512_add_epi32(other.raw, _mm512_madd_epi16(high, one));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high)));
}
#else
HWY_INLINE void QuantizeLine(const float* x, hn::Vec<F32> inverse, uint8_t* to, hn::Vec<I32>& sum,
                             hn::Vec<I32>& other) {
  static_assert(kLineBytes % (2 * kLanes) == 0 || kLanes == 1);
  for (int64_t i = 0; i < kLineBytes; i += 2 * kLanes) {
    sum = hn::Add(sum, QuantizeVector(hn::LoadU(F32(), x + i), inverse, to + i));
    const int64_t next = i + kLanes;
    other = hn::Add(other, QuantizeVector(hn::LoadU(F32(), x + next), inverse, to + next));
  }
}
#endif

// Writes q = round(x / s), padded with 0 to whole vectors. 64 numbers are stored together, `step`
// bytes before the next 64. Returns the start of the sums (RoundedRows).
int32_t QuantizeRow(const float* x, int64_t k, float scale, uint8_t* to,
                    int64_t step = kLineBytes) {
  const auto inverse = hn::Set(F32(), scale > 0 ? 1.0f / scale : 0.0f);
  auto sum = hn::Zero(I32()), other = sum;
  int64_t i = 0;
  for (; i + kLineBytes <= k; i += kLineBytes, to += step)
    QuantizeLine(x + i, inverse, to, sum, other);
  for (; i < k; i += kLanes, to += kLanes)
    sum = hn::Add(sum, QuantizeVector(LoadSome(x + i, k - i), inverse, to));
  const auto all = static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(I32(), hn::Add(sum, other))));
  return static_cast<int32_t>(0u - 128u * all); // may wrap where a number is not finite
}

// The form of a rounded row: bf16, bf16 in tiles of 32 numbers, or bf16 widened to f32.
enum class RowForm { pairs, pair_tiles, widened };

// Writes k rounded numbers, padded with 0 to whole vectors.
void RoundRow(const float* x, int64_t k, RowForm form, uint8_t* to) {
  const hn::Rebind<uint16_t, F32> d16;
  constexpr int64_t kTogether = kLineBytes / 2;
  const int64_t step = form == RowForm::pair_tiles ? kAmxTileBytes : kLineBytes;
  for (int64_t i = 0; i < k; i += kLanes) {
    const auto bits = RoundToBf16(LoadSome(x + i, k - i));
    if (form == RowForm::widened) {
      hn::StoreU(bits, U32(), reinterpret_cast<uint32_t*>(to + 4 * i));
    } else {
      const auto halves = hn::BitCast(I32(), hn::ShiftRight<16>(bits));
      uint8_t* place = to + i / kTogether * step + 2 * (i % kTogether);
      hn::StoreU(hn::DemoteTo(d16, halves), d16, reinterpret_cast<uint16_t*>(place));
    }
  }
}

// Returns the place of number k of row r. REQUIRES: k is a multiple of 32.
uint8_t* RowPlace(const Gemm& g, const RoundedRows& rows, int64_t r, int64_t k, RowForm form) {
  if (form == RowForm::pair_tiles) return tile_row(g, rows, r) + k / 32 * kAmxTileBytes;
  return rows.data + r * rows.stride + k * (form == RowForm::widened ? 4 : 2);
}

#if DLLM_HAS_LINES
// Rounds 32 numbers of 16 rows of a transposed A, in which the rows are neighbours, to rows of
// pairs.
HWY_INLINE void RoundSquare(const float* from, int64_t step, uint8_t* to, int64_t to_stride) {
  Line lines[16];
  DLLM_UNROLL for (int i = 0; i < 16; ++i) {
    const float* at = from + 2 * i * step;
    const auto low = hn::ShiftRight<16>(RoundToBf16(hn::LoadU(F32(), at)));
    const auto pairs = hn::Or(low, RoundToBf16(hn::LoadU(F32(), at + step)));
    std::memcpy(&lines[i], &pairs, sizeof pairs);
  }
  Transpose(lines);
  DLLM_UNROLL for (int i = 0; i < 16; ++i) std::memcpy(to + i * to_stride, &lines[i], sizeof(Line));
}

// Rounds whole squares of a transposed A. The source is read along its rows, 32 of them at a time.
// Returns the number of k that are done in each whole group of 16 rows.
int64_t RoundSquares(const Gemm& g, const RoundedRows& rows, int64_t begin, int64_t end,
                     RowForm form) {
  constexpr int64_t kNumbers = 32, kAhead = 64;
  if (form == RowForm::widened || g.a_stride != 1) return 0;
  const int64_t to_stride = form == RowForm::pair_tiles ? kLineBytes : rows.stride;
  int64_t k = 0;
  for (; k + kNumbers <= g.k; k += kNumbers) {
    for (int64_t r = begin; r + 16 <= end; r += 16) {
      const float* from = g.a + r + k * g.a_step;
      DLLM_UNROLL for (int64_t i = 0; i < kNumbers; ++i)
          __builtin_prefetch(from + i * g.a_step + kAhead);
      RoundSquare(from, g.a_step, RowPlace(g, rows, r, k, form), to_stride);
    }
  }
  return k;
}
#else
int64_t RoundSquares(const Gemm&, const RoundedRows&, int64_t, int64_t, RowForm) {
  return 0;
}
#endif

// Rounds a transposed A. The part that RoundSquares does not cover is copied in pieces of 16 rows x
// 256 numbers.
void RoundTransposed(const Gemm& g, const RoundedRows& rows, int64_t begin, int64_t end,
                     RowForm form) {
  constexpr int64_t kRows = 16, kNumbers = 256;
  const int64_t done = RoundSquares(g, rows, begin, end, form);
  float copy[kRows * kNumbers];
  for (int64_t r = begin; r < end; r += kRows) {
    const int64_t height = std::min(kRows, end - r);
    for (int64_t k = height == kRows ? done : 0; k < g.k; k += kNumbers) {
      const int64_t width = std::min(kNumbers, g.k - k);
      const float* from = g.a + r * g.a_stride + k * g.a_step;
      int64_t i = 0;
      for (; height == kRows && g.a_stride == 1 && i + 4 <= width; i += 4) {
        for (int64_t j = 0; j < kRows; j += 4)
          transpose_quad(from + i * g.a_step + j, g.a_step, copy + j * kNumbers + i, kNumbers);
      }
      for (; i < width; ++i) {
        for (int64_t j = 0; j < height; ++j)
          copy[j * kNumbers + i] = from[i * g.a_step + j * g.a_stride];
      }
      for (int64_t j = 0; j < height; ++j) {
        RoundRow(copy + j * kNumbers, width, form, RowPlace(g, rows, r + j, k, form));
      }
    }
  }
}

void RoundRows(const Gemm& g, int64_t begin, int64_t end, RowForm form) {
  const RoundedRows rows = rounded_rows(g);
  const int64_t size = form == RowForm::widened ? 4 : 2; // an odd k is followed by a zero
  for (int64_t r = begin; r < end; ++r) {
    if (form == RowForm::pair_tiles)
      clear_tile_tail(g, rows, r);
    else
      std::fill_n(rows.data + r * rows.stride + g.k * size, (g.k & 1) * size, uint8_t{0});
  }
  if (g.a_step != 1) return RoundTransposed(g, rows, begin, end, form);
  for (int64_t r = begin; r < end; ++r)
    RoundRow(g.a + r * g.a_stride, g.k, form, RowPlace(g, rows, r, 0, form));
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
