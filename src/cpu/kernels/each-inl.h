// Per-target: loops over the elements of a row.

#if defined(DLLM_CPU_KERNELS_EACH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_KERNELS_EACH_INL_H_
#undef DLLM_CPU_KERNELS_EACH_INL_H_
#else
#define DLLM_CPU_KERNELS_EACH_INL_H_
#endif

#include "cpu/simd/targets.h"

#include "cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

// Calls f(tag, i) for i = 0, lanes, 2 lanes..., then with a tag of one lane for the rest.
template <class F> HWY_INLINE void Each(int64_t n, const F& f) {
  const F32 d;
  const hn::CappedTag<float, 1> one;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(d, i);
  for (; i < n; ++i) f(one, i);
}

template <class D> HWY_INLINE hn::Vec<D> LoadOr(D d, const float* p, int64_t i, float otherwise) {
  return p == nullptr ? hn::Set(d, otherwise) : hn::LoadU(d, p + i);
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
