// Lane loaders of the formats of ggml with 4 to 6 bits per number (tensor/formats). A number is
// scale * q, or scale * q plus an offset. The product is exact in f32, so a fused multiply-add
// gives the bits of the two steps. The header is included once per target.

#if defined(DLLM_CPU_GEMM_LANES_NIBBLES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_GEMM_LANES_NIBBLES_INL_H_
#undef DLLM_CPU_GEMM_LANES_NIBBLES_INL_H_
#else
#define DLLM_CPU_GEMM_LANES_NIBBLES_INL_H_
#endif

#include "cpu/simd/targets.h"

#include "cpu/simd/math-inl.h"
#include "tensor/formats/levels.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

// Returns the f16 at byte `at` of the block as f32.
HWY_INLINE V LoadHalvesAt(const uint8_t* block, int64_t at, int64_t lane) {
  return LoadHalves(block + at * kPanelRows + 2 * lane);
}

// Returns the f32 at byte `at` of the block.
HWY_INLINE V LoadSinglesAt(const uint8_t* block, int64_t at, int64_t lane) {
  return hn::LoadU(D(), reinterpret_cast<const float*>(block + at * kPanelRows + 4 * lane));
}

// Bits are extracted from bytes before the numbers are widened, because vectors of bytes are four
// times shorter.
using D8 = hn::Rebind<uint8_t, D>;
using V8 = hn::Vec<D8>;

// Returns `count` bits from bit `shift` on of byte `at` of the block, for neighbouring rows.
HWY_INLINE V8 LoadBits(const uint8_t* block, int64_t at, int64_t lane, int64_t shift, int count) {
  const uint8_t* from = block + at * kPanelRows + lane;
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(D8(), static_cast<uint8_t>(*from >> shift & ((1 << count) - 1)));
#else
  // The mask removes the bits that the 16-bit shift moves in from the next byte.
  const hn::Repartition<uint16_t, D8> d16;
  const auto pairs = hn::BitCast(d16, hn::LoadU(D8(), from));
  const V8 moved = hn::BitCast(D8(), hn::ShiftRightSame(pairs, static_cast<int>(shift)));
  return hn::And(moved, hn::Set(D8(), static_cast<uint8_t>((1 << count) - 1)));
#endif
}
// Returns low | bits << 4, where `low` has four bits.
HWY_INLINE V8 Above(V8 low, V8 bits) {
  return hn::Or(low, hn::ShiftLeft<4>(bits));
}
// Returns 16 where bit `bit` of byte `at` is set, else 0.
HWY_INLINE V8 FifthBit(const uint8_t* block, int64_t at, int64_t lane, int64_t bit) {
  const V8 bytes = hn::LoadU(D8(), block + at * kPanelRows + lane);
  const V8 one = hn::Set(D8(), static_cast<uint8_t>(1u << bit));
  return hn::IfThenElseZero(hn::TestBit(bytes, one), hn::Set(D8(), uint8_t{16}));
}
// Returns levels - zero as floats.
HWY_INLINE V Numbers(V8 levels, int zero = 0) {
  const hn::Rebind<int8_t, D> d8;
  const auto moved = hn::Sub(hn::BitCast(d8, levels), hn::Set(d8, static_cast<int8_t>(zero)));
  return hn::ConvertTo(D(), hn::PromoteTo(hn::RebindToSigned<D>(), moved));
}

// Returns table[4 bits of byte `at`]. Group 0 is the low half of the byte, group 1 the high half.
HWY_INLINE V LookUp(const int8_t (&table)[16], const uint8_t* block, int64_t at, int64_t group,
                    int64_t lane) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(D(), table[block[at * kPanelRows + lane] >> (4 * group) & 15]);
#else
  const auto numbers =
      hn::LoadU(hn::Full128<uint8_t>(), reinterpret_cast<const uint8_t*>(&table[0]));
  return Numbers(hn::TableLookupBytes(numbers, LoadBits(block, at, lane, 4 * group, 4)));
#endif
}

// Blocks of 32 numbers. They have two groups of 16, in the low and the high half of the same bytes.

struct ScaleAndOffset {
  V scale, offset;
};

template <int64_t kSize> struct NibbleBlock {
  static constexpr int64_t kBlock = 32, kGroup = 16, kBytes = kSize * kPanelRows;
};

struct Q4_0Lanes : NibbleBlock<18> {
  static constexpr const char* kFormat = "q4_0";
  using State = V;
  static HWY_INLINE State Begin(const uint8_t* block, int64_t, int64_t lane) {
    return LoadHalvesAt(block, 0, lane);
  }
  static HWY_INLINE V At(State scale, const uint8_t* block, int64_t group, int64_t i,
                         int64_t lane) {
    return hn::Mul(Numbers(LoadBits(block, 2 + i, lane, 4 * group, 4), 8), scale);
  }
};

struct Q4_1Lanes : NibbleBlock<20> {
  static constexpr const char* kFormat = "q4_1";
  using State = ScaleAndOffset;
  static HWY_INLINE State Begin(const uint8_t* block, int64_t, int64_t lane) {
    return {LoadHalvesAt(block, 0, lane), LoadHalvesAt(block, 2, lane)};
  }
  static HWY_INLINE V At(State line, const uint8_t* block, int64_t group, int64_t i, int64_t lane) {
    const V q = Numbers(LoadBits(block, 4 + i, lane, 4 * group, 4));
    return Fma(q, line.scale, line.offset);
  }
};

// Returns five bits of a number. The word of fifth bits begins at byte kWord, and the low bits
// follow the word.
template <int64_t kWord>
HWY_INLINE V8 FiveBits(const uint8_t* block, int64_t group, int64_t i, int64_t lane) {
  const V8 low = LoadBits(block, kWord + 4 + i, lane, 4 * group, 4);
  return hn::Or(low, FifthBit(block, kWord + 2 * group + i / 8, lane, i % 8));
}

struct Q5_0Lanes : NibbleBlock<22> {
  static constexpr const char* kFormat = "q5_0";
  using State = V;
  static HWY_INLINE State Begin(const uint8_t* block, int64_t, int64_t lane) {
    return LoadHalvesAt(block, 0, lane);
  }
  static HWY_INLINE V At(State scale, const uint8_t* block, int64_t group, int64_t i,
                         int64_t lane) {
    return hn::Mul(Numbers(FiveBits<2>(block, group, i, lane), 16), scale);
  }
};

struct Q5_1Lanes : NibbleBlock<24> {
  static constexpr const char* kFormat = "q5_1";
  using State = ScaleAndOffset;
  static HWY_INLINE State Begin(const uint8_t* block, int64_t, int64_t lane) {
    return {LoadHalvesAt(block, 0, lane), LoadHalvesAt(block, 2, lane)};
  }
  static HWY_INLINE V At(State line, const uint8_t* block, int64_t group, int64_t i, int64_t lane) {
    return Fma(Numbers(FiveBits<4>(block, group, i, lane)), line.scale, line.offset);
  }
};

struct Iq4NlLanes : NibbleBlock<18> {
  static constexpr const char* kFormat = "iq4_nl";
  using State = V;
  static HWY_INLINE State Begin(const uint8_t* block, int64_t, int64_t lane) {
    return LoadHalvesAt(block, 0, lane);
  }
  static HWY_INLINE V At(State scale, const uint8_t* block, int64_t group, int64_t i,
                         int64_t lane) {
    return hn::Mul(LookUp(formats::kIq4Levels, block, 2 + i, group, lane), scale);
  }
};

struct Mxfp4Lanes : NibbleBlock<17> {
  static constexpr const char* kFormat = "mxfp4";
  using State = V; // half of the scale, because the levels are doubled
  static HWY_INLINE State Begin(const uint8_t* block, int64_t, int64_t lane) {
    const hn::RebindToSigned<D> d32;
    const auto e = hn::PromoteTo(d32, LoadBits(block, 0, lane, 0, 8));
    const auto small = hn::Shl(hn::Set(d32, 0x00200000), hn::Min(e, hn::Set(d32, 1)));
    const auto usual = hn::ShiftLeft<23>(hn::Sub(e, hn::Set(d32, 1)));
    const auto is_small = hn::Lt(e, hn::Set(d32, 2));
    return hn::BitCast(D(), hn::IfThenElse(is_small, small, usual));
  }
  static HWY_INLINE V At(State scale, const uint8_t* block, int64_t group, int64_t i,
                         int64_t lane) {
    return hn::Mul(LookUp(formats::kE2m1Doubled, block, 1 + i, group, lane), scale);
  }
};

// Blocks of 64 numbers with an f32 scale. They have two groups of 32, in the low and the high half
// of the same bytes.

// Returns table[4 bits of byte `at`], as LookUp for f32 numbers.
HWY_INLINE V LookUpFloats(const float (&table)[16], const uint8_t* block, int64_t at, int64_t group,
                          int64_t lane) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(D(), table[block[at * kPanelRows + lane] >> (4 * group) & 15]);
#else
  const hn::RebindToSigned<D> d32;
  const auto index = hn::PromoteTo(d32, LoadBits(block, at, lane, 4 * group, 4));
  if constexpr (kLanes == 16) {
    return hn::TableLookupLanes(hn::LoadU(D(), table), hn::IndicesFromVec(D(), index));
  } else if constexpr (kLanes == 8) { // two halves of the table
    const auto place = hn::IndicesFromVec(D(), hn::And(index, hn::Set(d32, 7)));
    const V low = hn::TableLookupLanes(hn::LoadU(D(), table), place),
            high = hn::TableLookupLanes(hn::LoadU(D(), table + 8), place);
    return hn::IfThenElse(hn::RebindMask(D(), hn::Gt(index, hn::Set(d32, 7))), high, low);
  } else {
    return hn::GatherIndex(D(), table, index);
  }
#endif
}

template <const float (&kLevels)[16]> struct Bits4Lanes {
  static constexpr int64_t kBlock = 64, kGroup = 32, kBytes = 36 * kPanelRows;
  using State = V;
  static HWY_INLINE State Begin(const uint8_t* block, int64_t, int64_t lane) {
    return LoadSinglesAt(block, 0, lane);
  }
  static HWY_INLINE V At(State scale, const uint8_t* block, int64_t group, int64_t i,
                         int64_t lane) {
    return hn::Mul(LookUpFloats(kLevels, block, 4 + i, group, lane), scale);
  }
};

struct Nf4Lanes : Bits4Lanes<formats::kNf4Levels> {
  static constexpr const char* kFormat = "nf4";
};

struct Fp4Lanes : Bits4Lanes<formats::kFp4Levels> {
  static constexpr const char* kFormat = "fp4";
};

// Blocks of 256 numbers.

// Returns the scale and the offset of group j of 32 numbers. They are stored as six-bit numbers
// from byte 4 on (tensor/formats/k_scales.h).
HWY_INLINE ScaleAndOffset GroupLine(const uint8_t* block, int64_t j, int64_t lane) {
  V8 scale, minimum;
  if (j < 4) {
    scale = LoadBits(block, 4 + j, lane, 0, 6);
    minimum = LoadBits(block, 8 + j, lane, 0, 6);
  } else {
    scale = Above(LoadBits(block, 8 + j, lane, 0, 4), LoadBits(block, j, lane, 6, 2));
    minimum = Above(LoadBits(block, 8 + j, lane, 4, 4), LoadBits(block, 4 + j, lane, 6, 2));
  }
  const V low = hn::Mul(Numbers(minimum), LoadHalvesAt(block, 2, lane));
  return {hn::Mul(Numbers(scale), LoadHalvesAt(block, 0, lane)), hn::Neg(low)};
}

struct Q4_KLanes {
  static constexpr const char* kFormat = "q4_k";
  static constexpr int64_t kBlock = 256, kGroup = 32, kBytes = 144 * kPanelRows;
  using State = ScaleAndOffset;
  static HWY_INLINE State Begin(const uint8_t* block, int64_t group, int64_t lane) {
    return GroupLine(block, group, lane);
  }
  static HWY_INLINE V At(State line, const uint8_t* block, int64_t group, int64_t i, int64_t lane) {
    const V8 q = LoadBits(block, 16 + group / 2 * 32 + i, lane, group % 2 * 4, 4);
    return Fma(Numbers(q), line.scale, line.offset);
  }
};

struct Q5_KLanes {
  static constexpr const char* kFormat = "q5_k";
  static constexpr int64_t kBlock = 256, kGroup = 32, kBytes = 176 * kPanelRows;
  using State = ScaleAndOffset;
  static HWY_INLINE State Begin(const uint8_t* block, int64_t group, int64_t lane) {
    return GroupLine(block, group, lane);
  }
  static HWY_INLINE V At(State line, const uint8_t* block, int64_t group, int64_t i, int64_t lane) {
    const V8 low = LoadBits(block, 48 + group / 2 * 32 + i, lane, group % 2 * 4, 4);
    const V q = Numbers(hn::Or(low, FifthBit(block, 16 + i, lane, group)));
    return Fma(q, line.scale, line.offset);
  }
};

struct Q6_KLanes {
  static constexpr const char* kFormat = "q6_k";
  static constexpr int64_t kBlock = 256, kGroup = 16, kBytes = 210 * kPanelRows;
  using State = V;
  static HWY_INLINE State Begin(const uint8_t* block, int64_t group, int64_t lane) {
    const auto* scales = reinterpret_cast<const int8_t*>(block + (192 + group) * kPanelRows + lane);
    return hn::Mul(LoadWeights(scales), LoadHalvesAt(block, 208, lane));
  }
  static HWY_INLINE V At(State scale, const uint8_t* block, int64_t group, int64_t i,
                         int64_t lane) {
    const int64_t half = group / 8, part = group % 8 / 2, column = group % 2 * 16 + i;
    const V8 low = LoadBits(block, half * 64 + part % 2 * 32 + column, lane, part / 2 * 4, 4);
    const V8 high = LoadBits(block, 128 + half * 32 + column, lane, part * 2, 2);
    return hn::Mul(Numbers(Above(low, high), 32), scale);
  }
};

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
