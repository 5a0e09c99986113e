#include "cpu/simd/functions.h"

#include "cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/functions.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/simd/math-inl.h"

// One line per function: the name of its operation, its name in this file, and its value at a
// vector v.
#undef DLLM_FUNCTIONS
#define DLLM_FUNCTIONS(X)                                                                          \
  X("exp", Exp, Exp(d, v))                                                                         \
  X("expm1", Expm1, Expm1(d, v))                                                                   \
  X("log", Log, Log(d, v))                                                                         \
  X("log1p", Log1p, Log1p(d, v))                                                                   \
  X("tanh", Tanh, Tanh(d, v))                                                                      \
  X("logistic", Logistic, Logistic(d, v))                                                          \
  X("erf", Erf, Erf(d, v))                                                                         \
  X("erf_inv", ErfInv, ErfInv(d, v))                                                               \
  X("sin", Sin, Sin(d, v))                                                                         \
  X("cos", Cos, Cos(d, v))                                                                         \
  X("sqrt", Sqrt, ((void)d, hn::Sqrt(v)))                                                          \
  X("rsqrt", Rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(v)))

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

#define DLLM_MAP(NAME, FUNCTION, EXPRESSION)                                                       \
  void Map##FUNCTION(const float* x, float* y, int64_t count) {                                    \
    Map(x, y, count, [](auto d, auto v) HWY_ATTR { return EXPRESSION; });                          \
  }
DLLM_FUNCTIONS(DLLM_MAP)
#undef DLLM_MAP

float SumOf(const float* x, int64_t count) {
  return Sum16(count, [x](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); });
}

} // namespace HWY_NAMESPACE
} // namespace dllm::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dllm::cpu {

// Defines one exported table and one entry per function. The entry chooses the instruction set at
// each call.
#define DLLM_ENTRY(NAME, FUNCTION, EXPRESSION)                                                     \
  HWY_EXPORT(Map##FUNCTION);                                                                       \
  static void Call##FUNCTION(const float* x, float* y, int64_t count) {                            \
    HWY_DYNAMIC_DISPATCH(Map##FUNCTION)(x, y, count);                                              \
  }
DLLM_FUNCTIONS(DLLM_ENTRY)
#undef DLLM_ENTRY

std::span<const Function> functions() {
#define DLLM_ROW(NAME, FUNCTION, EXPRESSION) {NAME, Call##FUNCTION},
  static constexpr Function kTable[] = {DLLM_FUNCTIONS(DLLM_ROW)};
#undef DLLM_ROW
  return kTable;
}

MapFn find_function(std::string_view name) {
  for (const Function& function : functions()) {
    if (function.name == name) return function.map;
  }
  return nullptr;
}

std::vector<std::string> compiled_targets() {
  std::vector<std::string> names;
  for (int64_t left = HWY_TARGETS; left != 0; left &= left - 1) // better ones have smaller numbers
    names.emplace_back(hwy::TargetName(left & -left));
  return names;
}

HWY_EXPORT(SumOf);
float sum16(const float* x, int64_t count) {
  return HWY_DYNAMIC_DISPATCH(SumOf)(x, count);
}

} // namespace dllm::cpu
#endif
