// bf16 and int8 products in the instructions of Highway's targets, rounding of activations, and the
// choice of a kernel.
//
// These targets have no dot product of bytes. So pairs of bytes are widened to 16 bits, and
// multiplied and added in 32 bits (vpmaddwd). The instruction for pairs of bytes (vpmaddubsw) adds
// in 16 bits and saturates, so it is not used. They have no dot product of bf16 either, so the
// rounded numbers are multiplied and added as f32.

#include "cpu/gemm/dot.h"

#include "base/threads/parallel.h"
#include "cpu/simd/targets.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/gemm/dot_vector.cpp"
#include <hwy/foreach_target.h>

#include "cpu/gemm/round-inl.h"
#include "cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
#undef DLLM_DOT_NAMESPACE
#define DLLM_DOT_NAMESPACE dllm::cpu::HWY_NAMESPACE
#include "cpu/gemm/dot-inl.h"

namespace dllm::cpu::HWY_NAMESPACE {

// The common part of the sets of instructions, with f32 vectors and tile sizes that fit the
// registers.
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

// Multiplies pairs of bf16 as f32. Inputs are widened when they are rounded.
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

// Multiplies bytes after widening them to 32 bits. It works on every target.
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
// Multiplies pairs of 16 bits, first the even and then the odd numbers of four, with two products
// and a sum at a time. Only x86 adds neighbouring products.
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

// Splits the bytes x0 x1 x2 x3 .. of the odd plane into pairs (x0, x2) in the even plane and (x1,
// x3) in the odd plane.
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
  // The scale of the next row is computed before this row is rounded, so the two overlap.
  if (begin < end) rows.scale[begin] = RowScale(g.a + begin * g.a_stride, g.k);
  for (int64_t r = begin; r < end; ++r) {
    const float* x = g.a + r * g.a_stride;
    uint8_t* to = clear_tile_tail(g, rows, r);
    if (r + 1 < end) rows.scale[r + 1] = RowScale(x + g.a_stride, g.k);
    rows.start[r] = QuantizeRow(x, g.k, rows.scale[r], to, kAmxTileBytes);
  }
}
void RoundForDot(const Gemm& g, int64_t begin, int64_t end) {
  QuantizeRows(g, begin, end, Bytes::kPlanes);
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

namespace {

// Finds the kernels that run on this chip, the fastest first, and returns their number. It
// allocates no memory, because every product calls it.
constexpr int kMostKernels = 5;
int find_kernels(PanelLayout layout, DotKernel (&found)[kMostKernels]) {
  int count = 0;
  const auto add = [&](const DotKernel* kernel) {
    if (kernel != nullptr) found[count++] = *kernel;
  };
  const int64_t target = HWY_DYNAMIC_DISPATCH(DotTargetId)();
  const bool avx512 = HWY_ARCH_X86 && target <= HWY_AVX3; // newer targets have smaller numbers
  const bool avx2 = HWY_ARCH_X86 && target <= HWY_AVX2;
  if (layout == PanelLayout::pairs) {
    if (avx512) add(amx_bf16_kernel());
    if (avx512) add(avx512_bf16_kernel());
    found[count++] = {"f32", HWY_DYNAMIC_DISPATCH(RoundWidened),
                      HWY_DYNAMIC_DISPATCH(WidenedPairsPart),
                      HWY_DYNAMIC_DISPATCH(WidenedPairsChains)};
    return count;
  }
  if (avx512) add(amx_int8_kernel());
  if (avx512) add(avx512_vnni_kernel());
  if (avx2) add(avx_vnni_kernel());
  found[count++] = {"bytes", HWY_DYNAMIC_DISPATCH(RoundForDot), HWY_DYNAMIC_DISPATCH(BytesPart),
                    HWY_DYNAMIC_DISPATCH(BytesChains)};
  found[count++] = {"wide bytes", HWY_DYNAMIC_DISPATCH(RoundBytes),
                    HWY_DYNAMIC_DISPATCH(WideBytesPart), HWY_DYNAMIC_DISPATCH(WideBytesChains)};
  return count;
}

} // namespace

DotKernel dot_kernel(PanelLayout layout) {
  DotKernel found[kMostKernels];
  find_kernels(layout, found);
  return found[0];
}

std::vector<DotKernel> dot_kernels(PanelLayout layout) {
  DotKernel found[kMostKernels];
  return {found, found + find_kernels(layout, found)};
}

} // namespace dllm::cpu
#endif
