// act(x) and act(gate) * up over rows, and their gradients. The header is included once per target.

#if defined(DLLM_CPU_KERNELS_ROWS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_KERNELS_ROWS_ACTIVATION_INL_H_
#undef DLLM_CPU_KERNELS_ROWS_ACTIVATION_INL_H_
#else
#define DLLM_CPU_KERNELS_ROWS_ACTIVATION_INL_H_
#endif

#include "cpu/kernels/rows/rows-inl.h"
#include "cpu/kernels/rows/rows.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu::HWY_NAMESPACE {

// Value and derivative of an activation at x.
template <class V> struct ValueSlope { V value, slope; };

struct Silu {
  // Value x s with s = logistic(x); slope s + x s (1 - s).
  template <class D, class V> static HWY_INLINE ValueSlope<V> Both(D d, V x) {
    const V s = Logistic(d, x), value = hn::Mul(x, s);
    return {value, Fma(value, hn::Sub(hn::Set(d, 1.0f), s), s)};
  }
};

struct Gelu {
  // Value x P with P the normal distribution at x; slope P + x times the normal density.
  template <class D, class V> static HWY_INLINE ValueSlope<V> Both(D d, V x) {
    const V half = hn::Set(d, 0.5f);
    const V p = Fma(half, Erf(d, hn::Mul(x, hn::Set(d, 0.707106781f))), half);
    const V density =
        hn::Mul(Exp(d, hn::Mul(hn::Mul(x, x), hn::Set(d, -0.5f))), hn::Set(d, 0.398942280f));
    return {hn::Mul(x, p), Fma(x, density, p)};
  }
};

struct GeluTanh {
  // Value x/2 (1 + t) with t = tanh(c (x + a x^3)); slope (1 + t)/2 + x/2 (1 - t^2) c (1 + 3 a
  // x^2).
  template <class D, class V> static HWY_INLINE ValueSlope<V> Both(D d, V x) {
    const V one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
    const V c = hn::Set(d, 0.797884561f), a = hn::Set(d, 0.044715f);
    const V x2 = hn::Mul(x, x);
    const V t = Tanh(d, hn::Mul(c, hn::Mul(x, Fma(a, x2, one))));
    const V p = Fma(half, t, half);
    const V inner = hn::Mul(c, Fma(hn::Set(d, 0.134145f), x2, one));
    const V rest = hn::Mul(hn::Mul(half, x), Fnma(t, t, one));
    return {hn::Mul(x, p), Fma(rest, inner, p)};
  }
};

struct Relu {
  template <class D, class V> static HWY_INLINE ValueSlope<V> Both(D d, V x) {
    const auto cut = hn::Le(x, hn::Zero(d)); // false for NaN, which stays NaN
    return {hn::IfThenZeroElse(cut, x), hn::IfThenZeroElse(cut, hn::Set(d, 1.0f))};
  }
};

template <class Act> void ActivationRow(const float* x, int64_t n, float* y) {
  Each(n, [=](auto d, int64_t i)
              HWY_ATTR { hn::StoreU(Act::Both(d, hn::LoadU(d, x + i)).value, d, y + i); });
}

template <class Act> void ActivationGradRow(const float* x, const float* dy, int64_t n, float* dx) {
  Each(n, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, dy + i), Act::Both(d, hn::LoadU(d, x + i)).slope), d, dx + i);
  });
}

template <class Act> void GatedRow(const float* gate, const float* up, int64_t n, float* y) {
  Each(n, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(Act::Both(d, hn::LoadU(d, gate + i)).value, hn::LoadU(d, up + i)), d, y + i);
  });
}

template <class Act>
void GatedGradRow(const float* gate, const float* up, const float* dy, int64_t n, float* dgate,
                  float* dup) {
  Each(n, [=](auto d, int64_t i) HWY_ATTR {
    const auto both = Act::Both(d, hn::LoadU(d, gate + i));
    const auto vdy = hn::LoadU(d, dy + i), vup = hn::LoadU(d, up + i);
    hn::StoreU(hn::Mul(hn::Mul(vdy, vup), both.slope), d, dgate + i);
    hn::StoreU(hn::Mul(vdy, both.value), d, dup + i);
  });
}

void ActivationOf(Activation kind, const float* x, int64_t n, float* y) {
  switch (kind) {
  case Activation::silu: return ActivationRow<Silu>(x, n, y);
  case Activation::gelu: return ActivationRow<Gelu>(x, n, y);
  case Activation::gelu_tanh: return ActivationRow<GeluTanh>(x, n, y);
  case Activation::relu: return ActivationRow<Relu>(x, n, y);
  }
}

void ActivationGrad(Activation kind, const float* x, const float* dy, int64_t n, float* dx) {
  switch (kind) {
  case Activation::silu: return ActivationGradRow<Silu>(x, dy, n, dx);
  case Activation::gelu: return ActivationGradRow<Gelu>(x, dy, n, dx);
  case Activation::gelu_tanh: return ActivationGradRow<GeluTanh>(x, dy, n, dx);
  case Activation::relu: return ActivationGradRow<Relu>(x, dy, n, dx);
  }
}

void Gated(Activation kind, const float* gate, const float* up, int64_t n, float* y) {
  switch (kind) {
  case Activation::silu: return GatedRow<Silu>(gate, up, n, y);
  case Activation::gelu: return GatedRow<Gelu>(gate, up, n, y);
  case Activation::gelu_tanh: return GatedRow<GeluTanh>(gate, up, n, y);
  case Activation::relu: return GatedRow<Relu>(gate, up, n, y);
  }
}

void GatedGrad(Activation kind, const float* gate, const float* up, const float* dy, int64_t n,
               float* dgate, float* dup) {
  switch (kind) {
  case Activation::silu: return GatedGradRow<Silu>(gate, up, dy, n, dgate, dup);
  case Activation::gelu: return GatedGradRow<Gelu>(gate, up, dy, n, dgate, dup);
  case Activation::gelu_tanh: return GatedGradRow<GeluTanh>(gate, up, dy, n, dgate, dup);
  case Activation::relu: return GatedGradRow<Relu>(gate, up, dy, n, dgate, dup);
  }
}

} // namespace dllm::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
