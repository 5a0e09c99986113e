// Loops over the elements of a row, rotary positions, and the optimizer. The header is included
// once per target.

#if defined(DLLM_CPU_KERNELS_ROWS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_KERNELS_ROWS_ROWS_INL_H_
#undef DLLM_CPU_KERNELS_ROWS_ROWS_INL_H_
#else
#define DLLM_CPU_KERNELS_ROWS_ROWS_INL_H_
#endif

#include "cpu/simd/targets.h"

#include "cpu/kernels/rows/rows.h"
#include "cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

// Calls f(tag, i) for i = 0, lanes, 2 lanes.., then with a tag of one lane for the remaining
// elements.
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

// --- rotary positions ---

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

// --- optimizer ---

// Computes one step of AdamW (Loshchilov & Hutter 2019, algorithm 2). Square root and division
// round correctly, so the bits are the same on every chip.
void AdamW(const float* parameter, const float* gradient, const float* first, const float* second,
           const AdamWScalars& s, int64_t n, float* parameter_out, float* first_out,
           float* second_out) {
  const float rest1 = 1.0f - s.beta1, rest2 = 1.0f - s.beta2;
  // A scale of 0 leaves out the gradient, even where it is not finite.
  const bool off = s.gradient_scale == 0.0f;
  Each(n, [=, &s](auto d, int64_t i) HWY_ATTR {
    const auto set = [d](float value) HWY_ATTR { return hn::Set(d, value); };
    const auto g = off ? hn::Zero(d) : hn::Mul(hn::LoadU(d, gradient + i), set(s.gradient_scale));
    const auto m = Fma(set(rest1), g, hn::Mul(set(s.beta1), hn::LoadU(d, first + i)));
    const auto v = Fma(hn::Mul(set(rest2), g), g, hn::Mul(set(s.beta2), hn::LoadU(d, second + i)));
    const auto p = hn::LoadU(d, parameter + i);
    const auto root = hn::Add(hn::Sqrt(hn::Div(v, set(s.correction2))), set(s.eps));
    const auto step = hn::Div(hn::Div(m, set(s.correction1)), root);
    hn::StoreU(m, d, first_out + i);
    hn::StoreU(v, d, second_out + i);
    hn::StoreU(Fnma(set(s.lr), Fma(set(s.weight_decay), p, step), p), d, parameter_out + i);
  });
}

float SumOfSquares(const float* x, int64_t n) {
  return Sum16(n, [x](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return hn::Mul(v, v);
  });
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
