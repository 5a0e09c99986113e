// Vector mathematics with the same bits on every instruction set. It uses only additions, products,
// divisions, square roots, explicit fused multiply-adds and integer operations, each rounded once.
// The header is included once per target of Highway.
//
// Largest errors over the whole f32 range in units in the last place: Exp 1, Log 1, Log1p 2, Expm1
// 2, Tanh 3, Logistic 2, Erf 2, Sin and Cos 2 (1e-7 absolute near their zeros).
// tests/unit/cpu/kernels/math_test.cpp checks them. The polynomials are minimax fits by the method
// of Remez. Argument reduction follows Cody & Waite 1980.

#if defined(DLLM_CPU_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DLLM_CPU_SIMD_MATH_INL_H_
#undef DLLM_CPU_SIMD_MATH_INL_H_
#else
#define DLLM_CPU_SIMD_MATH_INL_H_
#endif

#include "cpu/simd/targets.h"

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>

#include "cpu/simd/reduce_angle.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors have 1, 4, 8 or 16 lanes. Sums always have 16 virtual lanes.
using F32 = hn::CappedTag<float, 16>;
inline constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(F32()));

// Returns a * b + c, rounded once.
template <class V> HWY_INLINE V Fma(V a, V b, V c) {
#if HWY_TARGET == HWY_SCALAR
  return V(std::fma(a.raw, b.raw, c.raw));
#else
  static_assert(HWY_ARCH_X86 ? HWY_TARGET <= HWY_AVX2 : HWY_TARGET != HWY_EMU128,
                "targets without FMA give other bits");
  return hn::MulAdd(a, b, c);
#endif
}
// Returns c - a * b, rounded once.
template <class V> HWY_INLINE V Fnma(V a, V b, V c) {
#if HWY_TARGET == HWY_SCALAR
  return V(std::fma(-a.raw, b.raw, c.raw));
#else
  return hn::NegMulAdd(a, b, c);
#endif
}

// Evaluates a polynomial by Horner's rule. The coefficients go from the highest power to the
// constant.
template <class D, class V> HWY_INLINE V Polynomial(D, V, V sum) {
  return sum;
}
template <class D, class V, class... Rest>
HWY_INLINE V Polynomial(D d, V x, V sum, float next, Rest... rest) {
  return Polynomial(d, x, Fma(sum, x, hn::Set(d, next)), rest...);
}

// Returns the nearest integer of x (ties to even) as a float, and writes it to *integer. REQUIRES:
// |x| < 2^22.
template <class D, class V>
HWY_INLINE V NearestWhole(D d, V x, hn::Vec<hn::RebindToSigned<D>>* integer) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.0f); // 1.5 * 2^23, so the last bit of the sum is worth 1
  const V sum = hn::Add(x, magic);
  *integer = hn::Sub(hn::BitCast(di, sum), hn::BitCast(di, magic));
  return hn::Sub(sum, magic);
}

// Returns 2^n. REQUIRES: -126 <= n <= 127.
template <class D, class VI> HWY_INLINE hn::Vec<D> PowerOfTwo(D d, VI n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

// Returns exp(r) - 1 = r + r^2 p(r), where x = n ln 2 + r and |r| <= ln 2 / 2.
template <class D, class V> HWY_INLINE V ReducedExpm1(D d, V x, hn::Vec<hn::RebindToSigned<D>>* n) {
  const V whole = NearestWhole(d, hn::Mul(x, hn::Set(d, 1.44269502f)), n);
  V r = Fnma(whole, hn::Set(d, 0.693147182f), x);
  r = Fnma(whole, hn::Set(d, -1.90465421e-9f), r);
  const V p = Polynomial(d, r, hn::Set(d, 0.00138145755f), 0.00836873055f, 0.041668389f,
                         0.166665211f, 0.49999994f);
  return Fma(hn::Mul(r, r), p, r);
}

// Returns exp(x). The result is exactly 0 where exp(x) is not a normal number (x < -87.3365),
// infinity above 88.7228, and NaN for NaN.
template <class D, class V> HWY_INLINE V Exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V lowest = hn::Set(d, -87.3365402f), highest = hn::Set(d, 89.0f);
  V clamped = hn::IfThenElse(hn::Lt(x, lowest), lowest, x);
  clamped = hn::IfThenElse(hn::Gt(x, highest), highest, clamped);
  hn::Vec<decltype(di)> n;
  const V grown = hn::Add(hn::Set(d, 1.0f), ReducedExpm1(d, clamped, &n));
  const auto half = hn::ShiftRight<1>(n); // two factors, because 2^128 is not a float
  const V y = hn::Mul(hn::Mul(grown, PowerOfTwo(d, half)), PowerOfTwo(d, hn::Sub(n, half)));
  return hn::IfThenZeroElse(hn::Lt(x, lowest), y);
}

// Returns the bits of Exp with a third fewer operations, because 2^n is a float for x <= 0.
// REQUIRES: x <= 0.
template <class D, class V> HWY_INLINE V ExpBelowOne(D d, V x) {
  hn::Vec<hn::RebindToSigned<D>> n;
  const V grown = hn::Add(hn::Set(d, 1.0f), ReducedExpm1(d, x, &n));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3365402f)), hn::Mul(grown, PowerOfTwo(d, n)));
}

// Returns exp(x) - 1 without cancellation near 0.
template <class D, class V> HWY_INLINE V Expm1(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V one = hn::Set(d, 1.0f), lowest = hn::Set(d, -18.0f), large = hn::Set(d, 18.0f);
  V clamped = hn::IfThenElse(hn::Lt(x, lowest), lowest, x);
  clamped = hn::IfThenElse(hn::Gt(x, large), large, clamped);
  hn::Vec<decltype(di)> n;
  const V r = ReducedExpm1(d, clamped, &n);
  const V scale = PowerOfTwo(d, n);
  V y = Fma(scale, r, hn::Sub(scale, one));
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y); // keeps -0
  y = hn::IfThenElse(hn::Lt(x, lowest), hn::Set(d, -1.0f), y);
  return hn::IfThenElse(hn::Gt(x, large), Exp(d, x), y);
}

// Returns the natural logarithm, -infinity at 0, and NaN below 0. Subnormal arguments are scaled
// exactly.
template <class D, class V> HWY_INLINE V Log(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V one = hn::Set(d, 1.0f);
  const auto tiny = hn::Lt(x, hn::Set(d, 1.17549435e-38f));
  const V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 8388608.0f)), x);
  const auto bits = hn::BitCast(di, scaled);
  // The mantissa is in [sqrt(1/2), sqrt(2)).
  const auto n = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3F3504F3)));
  const V f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(n))), one);
  V e = hn::ConvertTo(d, n);
  e = hn::Sub(e, hn::IfThenElseZero(tiny, hn::Set(d, 23.0f)));
  // log(1 + f) = f - f^2/2 + f^3 q(f)
  const V q = Polynomial(d, f, hn::Set(d, 0.0674772859f), -0.116775148f, 0.11888697f, -0.124053404f,
                         0.142194539f, -0.166680053f, 0.200021237f, -0.250000089f, 0.333333135f);
  const V f2 = hn::Mul(f, f);
  V y = hn::Mul(hn::Mul(q, f), f2);
  y = Fma(hn::Set(d, -0.5f), f2, y);
  y = Fma(e, hn::Set(d, 1.42860677e-6f), y);
  y = Fma(e, hn::Set(d, 0.693145752f), hn::Add(f, y));
  const V infinity = hn::Set(d, HUGE_VALF);
  y = hn::IfThenElse(hn::Lt(x, infinity), y, x); // keeps infinity and NaN
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, NAN), y);
}

// Returns log(1 + x), the logarithm of the rounded sum with a correction for the rounding error.
template <class D, class V> HWY_INLINE V Log1p(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Add(one, x);
  const V lost = hn::Sub(x, hn::Sub(u, one));
  // Above 2^24 the correction is below half a unit. Without the bound, infinity - infinity would
  // give NaN.
  const V correction = hn::IfThenElseZero(hn::Lt(x, hn::Set(d, 16777216.0f)), hn::Div(lost, u));
  V y = hn::Add(Log(d, u), correction);
  y = hn::IfThenElse(hn::Eq(u, hn::Zero(d)), hn::Set(d, -HUGE_VALF), y);
  return hn::IfThenElse(hn::Eq(u, one), x, y);
}

template <class D, class V> HWY_INLINE V Tanh(D d, V x) {
  const V size = hn::Abs(x), two = hn::Set(d, 2.0f);
  const V grown = Expm1(
      d, hn::Mul(two, hn::IfThenElse(hn::Gt(size, hn::Set(d, 10.0f)), hn::Set(d, 10.0f), size)));
  const V y = hn::Div(grown, hn::Add(grown, two));
  return hn::CopySign(y, x);
}

// Returns 1 / (1 + exp(-x)), accurate for both signs of x.
template <class D, class V> HWY_INLINE V Logistic(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V z = Exp(d, hn::Neg(hn::Abs(x)));
  const V inverse = hn::Div(one, hn::Add(one, z));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(z, inverse), inverse);
}

template <class D, class V> HWY_INLINE V Erf(D d, V x) {
  const V size = hn::Abs(x);
  const V s = hn::Mul(x, x);
  const V near_zero = Polynomial(d, s, hn::Set(d, 8.39729328e-5f), -0.000814968895f, 0.0052017062f,
                                 -0.0268596988f, 0.112837017f, -0.376126349f, 0.128379166f);
  const V small = Fma(near_zero, size, size);
  // erf = 1 - exp(-p(|x|)) where p = -log(erfc)
  const V t = hn::IfThenElse(hn::Gt(size, hn::Set(d, 3.95f)), hn::Set(d, 3.95f), size);
  const V p =
      Polynomial(d, t, hn::Set(d, 5.22286712e-7f), 1.43060179e-5f, -0.000396677002f, 0.00405340455f,
                 -0.0248951241f, 0.108011849f, 0.633543551f, 1.12943411f, -0.000160398908f);
  V large = hn::Sub(hn::Set(d, 1.0f), Exp(d, hn::Neg(p)));
  large = hn::IfThenElse(hn::Ge(size, hn::Set(d, 3.95f)), hn::Set(d, 1.0f), large);
  const V y = hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.92f)), small, large);
  return hn::IfThenElse(hn::Eq(x, x), hn::CopySign(y, x), x);
}

// Returns the inverse of erf, and NaN outside [-1, 1]. It is the single-precision form of Giles
// 2012, "Approximating the erfinv function".
template <class D, class V> HWY_INLINE V ErfInv(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V w = hn::Neg(Log(d, hn::Mul(hn::Sub(one, x), hn::Add(one, x))));
  const V near = Polynomial(d, hn::Sub(w, hn::Set(d, 2.5f)), hn::Set(d, 2.81022636e-08f),
                            3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                            -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f);
  const V far = Polynomial(d, hn::Sub(hn::Sqrt(w), hn::Set(d, 3.0f)), hn::Set(d, -0.000200214257f),
                           0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                           -0.0076224613f, 0.00943887047f, 1.00167406f, 2.83297682f);
  const V y = hn::Mul(x, hn::IfThenElse(hn::Lt(w, hn::Set(d, 5.0f)), near, far));
  const V ends = hn::CopySign(hn::Set(d, HUGE_VALF), x);
  return hn::IfThenElse(hn::Eq(hn::Abs(x), one), ends, y);
}

// Writes sin(x) and cos(x). For |x| < 2^18 the angle is reduced by pi/2 in three parts. Larger
// angles are reduced in integers, lane by lane.
template <class D, class V> HWY_INLINE void SinCos(D d, V x, V* sine, V* cosine) {
  const hn::RebindToSigned<D> di;
  using VI = hn::Vec<decltype(di)>;
  const V size = hn::Abs(x);
  const auto huge = hn::Ge(size, hn::Set(d, 262144.0f));
  VI quadrant;
  const V whole =
      NearestWhole(d, hn::Mul(hn::IfThenZeroElse(huge, size), hn::Set(d, 0.636619747f)), &quadrant);
  V r = Fnma(whole, hn::Set(d, 1.57079637f), size);
  r = Fnma(whole, hn::Set(d, -4.37113883e-8f), r);
  r = Fnma(whole, hn::Set(d, -1.71512451e-15f), r);
  if (HWY_UNLIKELY(!hn::AllFalse(d, huge))) {
    HWY_ALIGN float sizes[hn::MaxLanes(d)], reduced[hn::MaxLanes(d)];
    HWY_ALIGN int32_t quadrants[hn::MaxLanes(d)];
    hn::Store(size, d, sizes);
    hn::Store(r, d, reduced);
    hn::Store(quadrant, di, quadrants);
    for (size_t i = 0; i < hn::MaxLanes(d); ++i) {
      if (sizes[i] >= 262144.0f) {
        reduced[i] = sizes[i] < HUGE_VALF ? reduce_angle(sizes[i], &quadrants[i]) : NAN;
      }
    }
    r = hn::Load(d, reduced);
    quadrant = hn::Load(di, quadrants);
  }
  const V s = hn::Mul(r, r);
  const V sin_poly =
      Polynomial(d, s, hn::Set(d, 2.71830231e-6f), -0.000198393333f, 0.00833332911f, -0.166666672f);
  const V sin_r = Fma(hn::Mul(r, s), sin_poly, r);
  const V cos_poly = Polynomial(d, s, hn::Set(d, 2.44383609e-5f), -0.00138873665f, 0.0416666456f);
  const V cos_r = Fma(hn::Mul(s, s), cos_poly, Fma(hn::Set(d, -0.5f), s, hn::Set(d, 1.0f)));
  const VI one = hn::Set(di, 1), two = hn::Set(di, 2);
  const auto swap =
      hn::MaskFromVec(hn::BitCast(d, hn::VecFromMask(di, hn::Eq(hn::And(quadrant, one), one))));
  const V sin_size = hn::IfThenElse(swap, cos_r, sin_r);
  const V cos_size = hn::IfThenElse(swap, sin_r, cos_r);
  // sin changes sign in quadrants 2, 3 and for negative x; cos in quadrants 1, 2.
  const V sin_sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(quadrant, two)));
  const V cos_sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(hn::Add(quadrant, one), two)));
  const V x_sign = hn::And(x, hn::BitCast(d, hn::Set(di, static_cast<int32_t>(0x80000000u))));
  *sine = hn::Xor(sin_size, hn::Xor(sin_sign, x_sign));
  *cosine = hn::Xor(cos_size, cos_sign);
}
template <class D, class V> HWY_INLINE V Sin(D d, V x) {
  V sine, cosine;
  SinCos(d, x, &sine, &cosine);
  return sine;
}
template <class D, class V> HWY_INLINE V Cos(D d, V x) {
  V sine, cosine;
  SinCos(d, x, &sine, &cosine);
  return cosine;
}

// Joins all lanes to one number by joining the lower and the upper half repeatedly.
template <class D, class V, class F>
HWY_INLINE float Fold(D, V lanes, [[maybe_unused]] const F& join) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (hn::MaxLanes(D()) > 1) {
    const hn::Half<D> half;
    return Fold(half, join(hn::LowerHalf(half, lanes), hn::UpperHalf(half, lanes)), join);
  }
#endif
  return hn::GetLane(lanes);
}

// Adds 16 virtual lanes in the one order that all sums use, the lower half to the upper half
// repeatedly.
HWY_INLINE float Tree16(hn::Vec<F32>* sums) {
  for (int64_t count = 16 / kLanes / 2; count > 0; count /= 2) {
    for (int64_t j = 0; j < count; ++j) sums[j] = hn::Add(sums[j], sums[j + count]);
  }
  return Fold(F32(), sums[0], [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}

// Returns the sum of value(0..n-1). Element i is added to virtual lane i modulo 16, then Tree16
// adds the lanes. value(d, i) returns elements i, i + 1, ... for the lanes of tag d. For the last
// elements it is called with a tag of one lane.
template <class F> HWY_INLINE float Sum16(int64_t n, const F& value) {
  const F32 d;
  const hn::CappedTag<float, 1> one;
  constexpr int64_t kVectors = 16 / kLanes;
  hn::Vec<F32> sums[kVectors];
  DLLM_UNROLL for (int64_t j = 0; j < kVectors; ++j) sums[j] = hn::Zero(d);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    DLLM_UNROLL for (int64_t j = 0; j < kVectors; ++j) sums[j] =
        hn::Add(sums[j], value(d, i + j * kLanes));
  }
  if (i < n) {
    HWY_ALIGN float lanes[16];
    DLLM_UNROLL for (int64_t j = 0; j < kVectors; ++j) hn::Store(sums[j], d, lanes + j * kLanes);
    for (int64_t k = 0; i < n; ++i, ++k) lanes[k] += hn::GetLane(value(one, i));
    DLLM_UNROLL for (int64_t j = 0; j < kVectors; ++j) sums[j] = hn::Load(d, lanes + j * kLanes);
  }
  return Tree16(sums);
}

// Returns the largest of value(0..n-1), or -infinity when n is 0. NaN elements are ignored.
template <class F> HWY_INLINE float Max16(int64_t n, const F& value) {
  const F32 d;
  const hn::CappedTag<float, 1> one;
  float best = -HUGE_VALF;
  int64_t i = 0;
  if (n >= kLanes) {
    auto most = hn::Set(d, -HUGE_VALF);
    for (; i + kLanes <= n; i += kLanes) {
      const auto v = value(d, i);
      most = hn::IfThenElse(hn::Gt(v, most), v, most);
    }
    best =
        Fold(d, most, [](auto a, auto b) HWY_ATTR { return hn::IfThenElse(hn::Gt(b, a), b, a); });
  }
  for (; i < n; ++i) {
    const float v = hn::GetLane(value(one, i));
    best = v > best ? v : best;
  }
  return best;
}

} // namespace HWY_NAMESPACE
} // namespace dllm::cpu
HWY_AFTER_NAMESPACE();

#endif
