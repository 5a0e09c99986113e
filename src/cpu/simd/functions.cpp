#include "cpu/simd/functions.h"

#include "cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/functions.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace dllm::cpu {
namespace HWY_NAMESPACE {

template <class F> HWY_INLINE void Map(const float* x, float* y, int64_t count, const F& f) {
  const F32 d;
  const hn::CappedTag<float, 1> one;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, y + i);
  for (; i < count; ++i) hn::StoreU(f(one, hn::LoadU(one, x + i)), one, y + i);
}

#define DLLM_MAP(NAME, EXPRESSION)                                                                 \
  void Map##NAME(const float* x, float* y, int64_t count) {                                        \
    Map(x, y, count, [](auto d, auto v) HWY_ATTR { return EXPRESSION; });                          \
  }
DLLM_MAP(Exp, Exp(d, v))
DLLM_MAP(Expm1, Expm1(d, v))
DLLM_MAP(Log, Log(d, v))
DLLM_MAP(Log1p, Log1p(d, v))
DLLM_MAP(Tanh, Tanh(d, v))
DLLM_MAP(Logistic, Logistic(d, v))
DLLM_MAP(Erf, Erf(d, v))
DLLM_MAP(ErfInv, ErfInv(d, v))
DLLM_MAP(Sin, Sin(d, v))
DLLM_MAP(Cos, Cos(d, v))
DLLM_MAP(Sqrt, ((void)d, hn::Sqrt(v)))
DLLM_MAP(Rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(v)))
#undef DLLM_MAP

float SumOf(const float* x, int64_t count) {
  return Sum16(count, [x](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
}
float MaxOf(const float* x, int64_t count) {
  return Max16(count, [x](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
}

} // namespace HWY_NAMESPACE
} // namespace dllm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dllm::cpu {

// One exported table and one entry per function: the entry picks the instruction set at each call.
#define DLLM_ENTRY(NAME)                                                                           \
  HWY_EXPORT(Map##NAME);                                                                           \
  static void Call##NAME(const float* x, float* y, int64_t count) {                                \
    HWY_DYNAMIC_DISPATCH(Map##NAME)(x, y, count);                                                  \
  }
DLLM_ENTRY(Exp)
DLLM_ENTRY(Expm1)
DLLM_ENTRY(Log)
DLLM_ENTRY(Log1p)
DLLM_ENTRY(Tanh)
DLLM_ENTRY(Logistic)
DLLM_ENTRY(Erf)
DLLM_ENTRY(ErfInv)
DLLM_ENTRY(Sin)
DLLM_ENTRY(Cos)
DLLM_ENTRY(Sqrt)
DLLM_ENTRY(Rsqrt)
#undef DLLM_ENTRY

MapFn find_function(std::string_view name) {
  struct Entry {
    std::string_view name;
    MapFn function;
  };
  static constexpr Entry kTable[] = {
      {"cos", CallCos},     {"erf", CallErf}, {"erf_inv", CallErfInv}, {"exp", CallExp},
      {"expm1", CallExpm1}, {"log", CallLog}, {"log1p", CallLog1p},    {"logistic", CallLogistic},
      {"rsqrt", CallRsqrt}, {"sin", CallSin}, {"sqrt", CallSqrt},      {"tanh", CallTanh}};
  for (const Entry& entry : kTable) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

HWY_EXPORT(SumOf);
HWY_EXPORT(MaxOf);
float sum16(const float* x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SumOf)(x, count);
}
float max16(const float* x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(MaxOf)(x, count);
}

} // namespace dllm::cpu
#endif
