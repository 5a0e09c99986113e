// bf16 and int8 products in the instructions of Highway's targets, rounding of activations, and the choice of a kernel.
//
// int8 without a dot product of bytes: pairs of bytes are widened to 16 bits and multiplied and added in 32 (vpmaddwd). The
// instruction for pairs of bytes (vpmaddubsw) adds in 16 bits and saturates, so it is not used.
// bf16 without its dot product: the same rounded numbers, multiplied and added as f32.

#include "cpu/gemm/dot.h"

#include "base/parallel.h"
#include "cpu/gemm/quad.h"
#include "cpu/simd/targets.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm/dot_vector.cpp"
#include <hwy/foreach_target.h>

#include "cpu/gemm/bf16-inl.h"
#include "cpu/gemm/transpose-inl.h"
#include "cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
#undef DLLM_DOT_NAMESPACE
#define DLLM_DOT_NAMESPACE dllm::cpu::HWY_NAMESPACE
#include "cpu/gemm/dot-inl.h"

namespace dllm::cpu::HWY_NAMESPACE {

using I32 = hn::RebindToSigned<F32>;
using U32 = hn::RebindToUnsigned<F32>;

// What the sets of instructions share: f32 vectors, and tiles that fit the registers.
struct FloatLanes {
  static constexpr int kLanes = static_cast<int>(HWY_NAMESPACE::kLanes);
  static constexpr int kTallest = kLanes == 16 ? 8 : kLanes == 1 ? 1 : 4;
  static constexpr int kTallestBlocks = kLanes == 16 ? 4 : kLanes == 1 ? 1 : 2;
  static constexpr int kGroup = kLanes == 16 ? 2 : 1;
  static constexpr int kWideRows = kLanes == 16 ? 4 : 0;
  static constexpr int kWide = kLanes == 16 ? 4 : 1;
  static constexpr int kWidest = kLanes == 16 ? 8 : kLanes == 1 ? 1 : 2;
  using F = hn::Vec<F32>;
  static HWY_INLINE F SetF(float x) { return hn::Set(F32(), x); }
  static HWY_INLINE F LoadF(const float* p) { return hn::LoadU(F32(), p); }
  static HWY_INLINE void StoreF(F v, float* p) { hn::StoreU(v, F32(), p); }
  static HWY_INLINE F Mul(F a, F b) { return hn::Mul(a, b); }
  static HWY_INLINE F Add(F a, F b) { return hn::Add(a, b); }
  static HWY_INLINE F Fma(F a, F b, F c) { return HWY_NAMESPACE::Fma(a, b, c); }
};

// Pairs of bf16 as f32; inputs are widened when they are rounded.
struct WidenedPairs : FloatLanes {
  static constexpr bool kInteger = false;
  static constexpr int64_t kInputBytes = 8;
  using Sum = F;
  struct Weight {
    F even, odd;
  };
  using Input = Weight;
  static HWY_INLINE Sum Start(int32_t x) { return SetF(static_cast<float>(x)); }
  static HWY_INLINE F Float(Sum sum) { return sum; }
  static HWY_INLINE Weight Load(const uint8_t* p) {
    const auto pair = hn::LoadU(U32(), reinterpret_cast<const uint32_t*>(p));
    return {hn::BitCast(F32(), hn::ShiftLeft<16>(pair)),
            hn::BitCast(F32(), hn::And(pair, hn::Set(U32(), 0xFFFF0000u)))};
  }
  static HWY_INLINE Input Spread(const uint8_t* x, int64_t) {
    const auto* pair = reinterpret_cast<const float*>(x);
    return {hn::Set(F32(), pair[0]), hn::Set(F32(), pair[1])};
  }
  static HWY_INLINE Sum Dot(Sum sum, Weight w, Input x) {
    return FloatLanes::Fma(x.even, w.even, FloatLanes::Fma(x.odd, w.odd, sum));
  }
};

struct IntegerLanes : FloatLanes {
  static constexpr bool kInteger = true;
  static constexpr int64_t kInputBytes = 4;
  using Sum = hn::Vec<I32>;
  static HWY_INLINE Sum Start(int32_t x) { return hn::Set(I32(), x); }
  static HWY_INLINE F Float(Sum sum) { return hn::ConvertTo(F32(), sum); }
  static HWY_INLINE F Halves(const uint8_t* p) {
    const hn::Rebind<hwy::float16_t, F32> halves;
    return hn::PromoteTo(F32(), hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(p)));
  }
};

inline int32_t load_i32(const uint8_t* p) {
  int32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// Bytes widened to 32 bits: on every target.
struct WideBytes : IntegerLanes {
  static constexpr bool kPlanes = false;
  using Weight = hn::Vec<U32>;
  struct Input {
    Sum x[4];
  };
  static HWY_INLINE Weight Load(const uint8_t* p) {
    return hn::LoadU(U32(), reinterpret_cast<const uint32_t*>(p));
  }
  static HWY_INLINE Input Spread(const uint8_t* x, int64_t) {
    const auto* q = reinterpret_cast<const int8_t*>(x);
    return {{Start(q[0]), Start(q[1]), Start(q[2]), Start(q[3])}};
  }
  template <int kByte> static HWY_INLINE Sum Product(Weight w, Sum x) {
    const auto byte = hn::And(hn::ShiftRight<8 * kByte>(w), hn::Set(U32(), 255u));
    return hn::Mul(hn::BitCast(I32(), byte), x);
  }
  static HWY_INLINE Sum Dot(Sum sum, Weight w, Input in) {
    const Sum low = hn::Add(Product<0>(w, in.x[0]), Product<1>(w, in.x[1]));
    const Sum high = hn::Add(Product<2>(w, in.x[2]), Product<3>(w, in.x[3]));
    return hn::Add(sum, hn::Add(low, high));
  }
};

#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
// Pairs of 16 bits: the even and the odd numbers of four, two products and a sum at a time. Only x86 adds neighbours.
struct PairedBytes : IntegerLanes {
  static constexpr bool kPlanes = true;
  using I16 = hn::Repartition<int16_t, I32>;
  using U16 = hn::Repartition<uint16_t, I32>;
  struct Weight {
    hn::Vec<I16> even, odd;
  };
  using Input = Weight;
  static HWY_INLINE Weight Load(const uint8_t* p) {
    const auto four = hn::LoadU(U16(), reinterpret_cast<const uint16_t*>(p));
    return {hn::BitCast(I16(), hn::And(four, hn::Set(U16(), 255))),
            hn::BitCast(I16(), hn::ShiftRight<8>(four))};
  }
  static HWY_INLINE Input Spread(const uint8_t* x, int64_t plane) {
    return {hn::BitCast(I16(), Start(load_i32(x))), hn::BitCast(I16(), Start(load_i32(x + plane)))};
  }
  static HWY_INLINE Sum Dot(Sum sum, Weight w, Input x) {
    Sum unused = hn::Zero(I32());
    sum = hn::ReorderWidenMulAccumulate(I32(), w.even, x.even, sum, unused);
    return hn::ReorderWidenMulAccumulate(I32(), w.odd, x.odd, sum, unused);
  }
};

// Bytes x0 x1 x2 x3 .. of the odd plane become pairs (x0, x2) in the even and (x1, x3) in the odd one.
void SplitPlanes(uint8_t* even, int64_t plane) {
  const PairedBytes::I16 d;
  for (int64_t i = 0; i < plane; i += 4 * kLanes) {
    const auto bytes = hn::LoadU(d, reinterpret_cast<const int16_t*>(even + plane + i));
    hn::StoreU(hn::ShiftRight<8>(hn::ShiftLeft<8>(bytes)), d, reinterpret_cast<int16_t*>(even + i));
    hn::StoreU(hn::ShiftRight<8>(bytes), d, reinterpret_cast<int16_t*>(even + plane + i));
  }
}
using Bytes = PairedBytes;
#else
void SplitPlanes(uint8_t*, int64_t) {}
using Bytes = WideBytes;
#endif

// x[0..lanes) of k left, zero beyond.
HWY_INLINE hn::Vec<F32> LoadSome(const float* x, int64_t left) {
  if (left >= kLanes) return hn::LoadU(F32(), x);
  float some[kLanes] = {};
  std::copy_n(x, left, some);
  return hn::LoadU(F32(), some);
}

// s = max|x| / 127; NaN when a number is not finite, 0 where all are (nearly) zero. Several maxima at a time: a row is read
// twice, and with few columns that is a tenth of the product.
float RowScale(const float* x, int64_t k) {
  const F32 d;
  constexpr int kChains = 4;
  using V = hn::Vec<F32>;
  V most[kChains], odd[kChains];
  DLLM_UNROLL for (int j = 0; j < kChains; ++j) most[j] = odd[j] = hn::Zero(d);
  const auto add = [&](int j, V v) HWY_ATTR {
    most[j] = hn::Max(most[j], hn::Abs(v));
    odd[j] = hn::Add(odd[j], hn::Sub(v, v)); // NaN of NaN and infinity
  };
  int64_t i = 0;
  for (; i + kChains * kLanes <= k; i += kChains * kLanes) {
    DLLM_UNROLL for (int j = 0; j < kChains; ++j) add(j, hn::LoadU(d, x + i + j * kLanes));
  }
  for (; i < k; i += kLanes) add(0, LoadSome(x + i, k - i));
  DLLM_UNROLL for (int j = 1; j < kChains; ++j) {
    most[0] = hn::Max(most[0], most[j]);
    odd[0] = hn::Add(odd[0], odd[j]);
  }
  const float top = hn::GetLane(hn::MaxOfLanes(d, most[0]));
  const float none = hn::GetLane(hn::SumOfLanes(d, odd[0]));
  constexpr float kLeast = 1e-30f; // 127 / top stays finite
  return none + (top > kLeast ? top / 127.0f : 0.0f);
}

// q = round(x / s), padded with 0 to whole vectors; 64 of them lie together, `step` bytes before the next. Returns what the
// sums begin with.
int32_t QuantizeRow(const float* x, int64_t k, float scale, uint8_t* to,
                    int64_t step = kLineBytes) {
  const F32 d;
  const hn::Rebind<int8_t, F32> d8;
  const auto inverse = hn::Set(d, scale > 0 ? 1.0f / scale : 0.0f);
  const auto most = hn::Set(I32(), 127), least = hn::Set(I32(), -127);
  const auto quantize = [&](hn::Vec<F32> v, int64_t i) HWY_ATTR {
    auto q = hn::NearestInt(hn::Mul(v, inverse));
    q = hn::Min(hn::Max(q, least), most); // of numbers that are not finite
    uint8_t* place = to + i / kLineBytes * step + i % kLineBytes;
    hn::StoreU(hn::DemoteTo(d8, q), d8, reinterpret_cast<int8_t*>(place));
    return q;
  };
  auto sum = hn::Zero(I32()), other = sum;
  int64_t i = 0;
  for (; i + 2 * kLanes <= k; i += 2 * kLanes) {
    sum = hn::Add(sum, quantize(hn::LoadU(d, x + i), i));
    other = hn::Add(other, quantize(hn::LoadU(d, x + i + kLanes), i + kLanes));
  }
  for (; i < k; i += kLanes) sum = hn::Add(sum, quantize(LoadSome(x + i, k - i), i));
  return -128 * hn::GetLane(hn::SumOfLanes(I32(), hn::Add(sum, other)));
}

void QuantizeRows(const Gemm& g, int64_t begin, int64_t end, bool planes) {
  const RoundedRows rows = rounded_rows(g);
  const int64_t block = g.k / std::max<int64_t>(1, rows.blocks);
  for (int64_t r = begin; r < end; ++r) {
    const float* x = g.a + r * g.a_stride;
    uint8_t* to = rows.data + r * rows.stride;
    uint8_t* bytes = planes ? to + rows.plane : to;
    for (int64_t b = 0; b < rows.blocks; ++b) {
      const int64_t at = r * rows.blocks + b;
      rows.scale[at] = RowScale(x + b * block, block);
      rows.start[at] = QuantizeRow(x + b * block, block, rows.scale[at], bytes + b * block);
    }
    std::fill_n(bytes + g.k, -g.k & 3, uint8_t{0});
    if (planes) SplitPlanes(to, rows.plane);
  }
}

void RoundBytes(const Gemm& g, int64_t begin, int64_t end) {
  QuantizeRows(g, begin, end, false);
}
void RoundByteTiles(const Gemm& g, int64_t begin, int64_t end) {
  const RoundedRows rows = rounded_rows(g);
  for (int64_t r = begin; r < end; ++r) {
    const float* x = g.a + r * g.a_stride;
    uint8_t* to = clear_tile_tail(g, rows, r);
    rows.scale[r] = RowScale(x, g.k);
    rows.start[r] = QuantizeRow(x, g.k, rows.scale[r], to, kAmxTileBytes);
  }
}
void RoundForDot(const Gemm& g, int64_t begin, int64_t end) {
  QuantizeRows(g, begin, end, Bytes::kPlanes);
}

// How rounded numbers of a row lie: bf16, bf16 with 32 of them in a tile, or as f32.
enum class RowForm { pairs, pair_tiles, widened };

// k numbers, padded with 0 to whole vectors.
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

// Where row r begins, and number k of it (a multiple of 32).
uint8_t* RowPlace(const Gemm& g, const RoundedRows& rows, int64_t r, int64_t k, RowForm form) {
  if (form == RowForm::pair_tiles) return tile_row(g, rows, r) + k / 32 * kAmxTileBytes;
  return rows.data + r * rows.stride + k * (form == RowForm::widened ? 4 : 2);
}

#if DLLM_HAS_LINES
// 32 numbers of 16 rows of a transposed A whose rows are neighbours. `to`: rows of pairs.
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

// Whole squares. The source is read along its rows, 32 of them at a time. Returns how many numbers of the whole 16s of rows
// are done.
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

// What RoundSquares leaves comes through a copy of 16 rows x 256 numbers.
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
void RoundPairs(const Gemm& g, int64_t begin, int64_t end) {
  RoundRows(g, begin, end, RowForm::pairs);
}
void RoundPairTiles(const Gemm& g, int64_t begin, int64_t end) {
  RoundRows(g, begin, end, RowForm::pair_tiles);
}
void RoundWidened(const Gemm& g, int64_t begin, int64_t end) {
  RoundRows(g, begin, end, RowForm::widened);
}

void WidenedPairsPart(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t begin,
                      int64_t end) {
  DotPart<WidenedPairs>(g, row_begin, row_end, begin, end);
}
void BytesPart(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t begin, int64_t end) {
  DotPart<Bytes>(g, row_begin, row_end, begin, end);
}
void WideBytesPart(const Gemm& g, int64_t row_begin, int64_t row_end, int64_t begin, int64_t end) {
  DotPart<WideBytes>(g, row_begin, row_end, begin, end);
}

int64_t WidenedPairsChains(int64_t rounds, float* sink) {
  return DotChains<WidenedPairs>(rounds, sink);
}
int64_t BytesChains(int64_t rounds, float* sink) {
  return DotChains<Bytes>(rounds, sink);
}
int64_t WideBytesChains(int64_t rounds, float* sink) {
  return DotChains<WideBytes>(rounds, sink);
}

int64_t DotTargetId() {
  return HWY_TARGET;
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace dllm::cpu {

HWY_EXPORT(BytesChains);
HWY_EXPORT(BytesPart);
HWY_EXPORT(DotTargetId);
HWY_EXPORT(RoundBytes);
HWY_EXPORT(RoundByteTiles);
HWY_EXPORT(RoundPairTiles);
HWY_EXPORT(RoundForDot);
HWY_EXPORT(RoundPairs);
HWY_EXPORT(RoundWidened);
HWY_EXPORT(WideBytesChains);
HWY_EXPORT(WideBytesPart);
HWY_EXPORT(WidenedPairsChains);
HWY_EXPORT(WidenedPairsPart);

void round_to_pairs(const Gemm& gemm, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(RoundPairs)(gemm, begin, end);
}
void round_to_bytes(const Gemm& gemm, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(RoundBytes)(gemm, begin, end);
}
void round_to_pair_tiles(const Gemm& gemm, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(RoundPairTiles)(gemm, begin, end);
}
void round_to_byte_tiles(const Gemm& gemm, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(RoundByteTiles)(gemm, begin, end);
}

std::vector<DotKernel> dot_kernels(PanelLayout layout) {
  std::vector<DotKernel> found;
  const auto add = [&](const DotKernel* kernel) {
    if (kernel != nullptr) found.push_back(*kernel);
  };
  const int64_t target = HWY_DYNAMIC_DISPATCH(DotTargetId)();
  const bool avx512 = HWY_ARCH_X86 && target <= HWY_AVX3; // newer targets have smaller numbers
  const bool avx2 = HWY_ARCH_X86 && target <= HWY_AVX2;
  if (layout == PanelLayout::pairs) {
    if (avx512) add(amx_bf16_kernel());
    if (avx512) add(avx512_bf16_kernel());
    found.push_back({"f32", HWY_DYNAMIC_DISPATCH(RoundWidened),
                     HWY_DYNAMIC_DISPATCH(WidenedPairsPart),
                     HWY_DYNAMIC_DISPATCH(WidenedPairsChains)});
    return found;
  }
  if (avx512) add(amx_int8_kernel());
  if (avx512) add(avx512_vnni_kernel());
  if (avx2) add(avx_vnni_kernel());
  found.push_back({"bytes", HWY_DYNAMIC_DISPATCH(RoundForDot), HWY_DYNAMIC_DISPATCH(BytesPart),
                   HWY_DYNAMIC_DISPATCH(BytesChains)});
  found.push_back({"wide bytes", HWY_DYNAMIC_DISPATCH(RoundBytes),
                   HWY_DYNAMIC_DISPATCH(WideBytesPart), HWY_DYNAMIC_DISPATCH(WideBytesChains)});
  return found;
}

} // namespace dllm::cpu
#endif
