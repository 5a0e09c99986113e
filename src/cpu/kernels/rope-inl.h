// Per-target: rotary positions.

#if defined(DLLM_CPU_KERNELS_ROPE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_KERNELS_ROPE_INL_H_
#undef DLLM_CPU_KERNELS_ROPE_INL_H_
#else
#define DLLM_CPU_KERNELS_ROPE_INL_H_
#endif

#include "cpu/kernels/each-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

void RopeTable(float position, const float* inv_freq, int64_t half, float amplitude, float* cosine,
               float* sine) {
  Each(half, [=](auto d, int64_t i) HWY_ATTR {
    hn::Vec<decltype(d)> s, c;
    SinCos(d, hn::Mul(hn::Set(d, position), hn::LoadU(d, inv_freq + i)), &s, &c);
    hn::StoreU(hn::Mul(c, hn::Set(d, amplitude)), d, cosine + i);
    hn::StoreU(hn::Mul(s, hn::Set(d, amplitude)), d, sine + i);
  });
}

// (a, b) -> (a cos - b sin, b cos + a sin)
void Rope(const float* x, const float* cosine, const float* sine, int64_t half, bool interleaved,
          float* y) {
  Each(half, [=](auto d, int64_t i) HWY_ATTR {
    hn::Vec<decltype(d)> a, b;
    if (interleaved) {
      hn::LoadInterleaved2(d, x + 2 * i, a, b);
    } else {
      a = hn::LoadU(d, x + i);
      b = hn::LoadU(d, x + half + i);
    }
    const auto c = hn::LoadU(d, cosine + i), s = hn::LoadU(d, sine + i);
    const auto turned_a = Fnma(b, s, hn::Mul(a, c));
    const auto turned_b = Fma(a, s, hn::Mul(b, c));
    if (interleaved) {
      hn::StoreInterleaved2(turned_a, turned_b, d, y + 2 * i);
    } else {
      hn::StoreU(turned_a, d, y + i);
      hn::StoreU(turned_b, d, y + half + i);
    }
  });
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
