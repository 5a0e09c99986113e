// These functions round vectors to bf16. The header is included once per target.

#if defined(DLLM_CPU_GEMM_BF16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_GEMM_BF16_INL_H_
#undef DLLM_CPU_GEMM_BF16_INL_H_
#else
#define DLLM_CPU_GEMM_BF16_INL_H_
#endif

#include "cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

// Returns the bits of the nearest bf16 in the upper halves, with ties to even. NaN stays NaN.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<F32>> RoundToBf16(hn::Vec<F32> x) {
  const hn::RebindToUnsigned<F32> d;
  const auto bits = hn::BitCast(d, x);
  const auto even = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  const auto rounded = hn::Add(bits, hn::Add(even, hn::Set(d, 0x7FFFu)));
  const auto quiet = hn::Or(bits, hn::Set(d, 0x00400000u));
  const auto none = hn::RebindMask(d, hn::IsNaN(x));
  return hn::And(hn::IfThenElse(none, quiet, rounded), hn::Set(d, 0xFFFF0000u));
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
