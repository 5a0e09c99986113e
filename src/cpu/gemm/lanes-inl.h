// Lane loaders, one per weight format. A loader reads one vector of weights as f32 from a panel
// (gemm.h), for neighbouring rows at one k. The header is included once per target.

#if defined(DLLM_CPU_GEMM_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_GEMM_LANES_INL_H_
#undef DLLM_CPU_GEMM_LANES_INL_H_
#else
#define DLLM_CPU_GEMM_LANES_INL_H_
#endif

#include "cpu/simd/targets.h"

#include "cpu/simd/math-inl.h"

#include <tuple>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

using D = F32;
using V = hn::Vec<D>;

// Load elements of an array and widen them to f32, exactly for bf16 and i8.
HWY_INLINE V LoadWeights(const float* p) {
  return hn::LoadU(D(), p);
}
HWY_INLINE V LoadWeights(const uint16_t* p) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, p))));
}
HWY_INLINE V LoadWeights(const int8_t* p) {
  const hn::RebindToSigned<D> d32;
  const hn::Rebind<int8_t, D> d8;
  return hn::ConvertTo(D(), hn::PromoteTo(d32, hn::LoadU(d8, p)));
}
HWY_INLINE V LoadHalves(const uint8_t* p) {
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(D(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}

// The weights that a tile reads. W is the element type of an array, or one of the block formats
// below.
template <class W> struct Lanes {
  using Unit = W;
  static constexpr int64_t kBlock = 1;          // numbers of a chain in one panel block
  static constexpr int64_t kUnits = kPanelRows; // units of a panel block
};

// Loaders of block formats. A block is cut into groups of kGroup numbers. Begin() returns the State
// of a group, which stays in registers during the group. At() returns the vector at the i-th k of
// the group. `lane` is the first row of the vector.
struct F16Lanes {
  static constexpr const char* kFormat = "f16";
  static constexpr int64_t kBlock = 1, kGroup = 1, kBytes = 2 * kPanelRows;
  using State = int;
  static HWY_INLINE State Begin(const uint8_t*, int64_t, int64_t) { return 0; }
  static HWY_INLINE V At(State, const uint8_t* block, int64_t, int64_t, int64_t lane) {
    return LoadHalves(block + 2 * lane);
  }
};

struct Q8_0Lanes {
  static constexpr const char* kFormat = "q8_0";
  static constexpr int64_t kBlock = 32, kGroup = 32, kBytes = 34 * kPanelRows;
  using State = V; // scales
  static HWY_INLINE State Begin(const uint8_t* block, int64_t, int64_t lane) {
    return LoadHalves(block + 2 * lane);
  }
  static HWY_INLINE V At(State scale, const uint8_t* block, int64_t, int64_t i, int64_t lane) {
    const uint8_t* q = block + (2 + i) * kPanelRows + lane;
    return hn::Mul(LoadWeights(reinterpret_cast<const int8_t*>(q)), scale);
  }
};

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#include "cpu/gemm/lanes_nibbles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

using BlockLanes =
    std::tuple<F16Lanes, Q8_0Lanes, Q4_0Lanes, Q4_1Lanes, Q5_0Lanes, Q5_1Lanes, Q4_KLanes,
               Q5_KLanes, Q6_KLanes, Iq4NlLanes, Mxfp4Lanes, Nf4Lanes, Fp4Lanes>;

template <class L> struct BlockUnits {
  using Unit = uint8_t;
  static constexpr int64_t kBlock = L::kBlock;
  static constexpr int64_t kUnits = L::kBytes;
};
template <> struct Lanes<F16Lanes> : BlockUnits<F16Lanes> {};
template <> struct Lanes<Q8_0Lanes> : BlockUnits<Q8_0Lanes> {};
template <> struct Lanes<Q4_0Lanes> : BlockUnits<Q4_0Lanes> {};
template <> struct Lanes<Q4_1Lanes> : BlockUnits<Q4_1Lanes> {};
template <> struct Lanes<Q5_0Lanes> : BlockUnits<Q5_0Lanes> {};
template <> struct Lanes<Q5_1Lanes> : BlockUnits<Q5_1Lanes> {};
template <> struct Lanes<Q4_KLanes> : BlockUnits<Q4_KLanes> {};
template <> struct Lanes<Q5_KLanes> : BlockUnits<Q5_KLanes> {};
template <> struct Lanes<Q6_KLanes> : BlockUnits<Q6_KLanes> {};
template <> struct Lanes<Iq4NlLanes> : BlockUnits<Iq4NlLanes> {};
template <> struct Lanes<Mxfp4Lanes> : BlockUnits<Mxfp4Lanes> {};
template <> struct Lanes<Nf4Lanes> : BlockUnits<Nf4Lanes> {};
template <> struct Lanes<Fp4Lanes> : BlockUnits<Fp4Lanes> {};
template <class W> inline constexpr bool kIsBlocks = std::is_class_v<W>;
// True for formats of fewer than 8 bits. They have only some of the tile sizes, because compiling
// all sizes takes minutes.
template <class W>
inline constexpr bool kFewTiles =
    kIsBlocks<W> && !std::is_same_v<W, F16Lanes> && !std::is_same_v<W, Q8_0Lanes>;

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
