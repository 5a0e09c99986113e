// y = f(x), elementwise, for the functions of simd/functions.h and for exact functions.

#include "cpu/kernel.h"
#include "cpu/simd/functions.h"
#include "graph/op.h"

#include <bit>
#include <cmath>
#include <vector>

namespace dllm::cpu {
namespace {

template <class T, class R, class Op> Kernel make_map(const CompileInfo& info, Op op) {
  const int64_t count = info.input(0).shape.count();
  Kernel kernel;
  kernel.elementwise = true;
  kernel.run = [count, op](const KernelCall& call) {
    const T* x = call.inputs[0].in<T>();
    R* y = call.outputs[0].out<R>();
    split(call.pool, count, grain_of(1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = op(x[i]);
    });
  };
  return kernel;
}

Kernel make_function(const CompileInfo& info) {
  const MapFn function = find_function(info.node.op->name);
  const int64_t count = info.input(0).shape.count();
  Kernel kernel;
  kernel.elementwise = true;
  kernel.run = [count, function](const KernelCall& call) {
    split(call.pool, count, grain_of(5), [&](int64_t begin, int64_t end) {
      function(call.inputs[0].in<float>() + begin, call.outputs[0].out<float>() + begin,
               end - begin);
    });
  };
  return kernel;
}

// Returns -x. Integers wrap, so the negative of the smallest integer is itself.
template <class T> T negative_of(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return -x;
  else
    return static_cast<T>(0u - static_cast<uint32_t>(x));
}
template <class T> T size_of(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fabs(x);
  else
    return x < 0 ? negative_of(x) : x;
}
template <class T> T sign_of(T x) {
  if (x > T{0}) return T{1};
  if (x < T{0}) return static_cast<T>(-1);
  return x; // keeps NaN and the sign of zero
}
float round_even(float x) {
  if (!(std::fabs(x) < 8388608.0f)) return x; // whole, infinite or NaN
  const float magic = std::copysign(8388608.0f, x);
  return std::copysign((x + magic) - magic, x);
}

template <class F> Kernel make_signed(const CompileInfo& info, F op) {
  return info.input(0).dtype == DType::i32 ? make_map<int32_t, int32_t>(info, op)
                                           : make_map<float, float>(info, op);
}

Kernel make_negate(const CompileInfo& info) {
  return make_signed(info, [](auto x) { return negative_of(x); });
}
Kernel make_absolute(const CompileInfo& info) {
  return make_signed(info, [](auto x) { return size_of(x); });
}
Kernel make_sign(const CompileInfo& info) {
  return make_signed(info, [](auto x) { return sign_of(x); });
}
Kernel make_floor(const CompileInfo& info) {
  return make_map<float, float>(info, [](float x) { return std::floor(x); });
}
Kernel make_round(const CompileInfo& info) {
  return make_map<float, float>(info, [](float x) { return round_even(x); });
}
Kernel make_is_finite(const CompileInfo& info) {
  return make_map<float, uint8_t>(info, [](float x) -> uint8_t {
    return (std::bit_cast<uint32_t>(x) & 0x7F800000u) != 0x7F800000u;
  });
}
Kernel make_logical_not(const CompileInfo& info) {
  return make_map<uint8_t, uint8_t>(info, [](uint8_t x) { return static_cast<uint8_t>(1 - x); });
}

std::vector<KernelEntry> unary_entries() {
  std::vector<KernelEntry> entries = {
      {"absolute", make_absolute},   {"floor", make_floor},
      {"is_finite", make_is_finite}, {"logical_not", make_logical_not},
      {"negate", make_negate},       {"round", make_round},
      {"sign", make_sign},
  };
  for (const Function& function : functions()) entries.push_back({function.name, make_function});
  return entries;
}

} // namespace

// Returns the exact functions above and every function of simd/functions.cpp.
KernelList unary_kernels() {
  static const std::vector<KernelEntry> entries = unary_entries();
  return entries;
}

} // namespace dllm::cpu
