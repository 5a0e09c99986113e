// Per-target: the elementwise bodies of the optimizer.

#if defined(DLLM_CPU_KERNELS_OPTIMIZER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_KERNELS_OPTIMIZER_INL_H_
#undef DLLM_CPU_KERNELS_OPTIMIZER_INL_H_
#else
#define DLLM_CPU_KERNELS_OPTIMIZER_INL_H_
#endif

#include "cpu/kernels/each-inl.h"
#include "cpu/kernels/rows.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

// Loshchilov & Hutter 2019, algorithm 2. True square root and division: equal bits on every chip.
void AdamW(const float* parameter, const float* gradient, const float* first, const float* second,
           const AdamWScalars& s, int64_t n, float* parameter_out, float* first_out,
           float* second_out) {
  const float rest1 = 1.0f - s.beta1, rest2 = 1.0f - s.beta2;
  const bool off =
      s.gradient_scale == 0.0f; // the gradient is left out, even where it is not finite
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
