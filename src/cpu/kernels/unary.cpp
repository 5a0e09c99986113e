// y = f(x), elementwise: the functions of simd/functions.h and the exact ones.

#include "base/error.h"
#include "cpu/kernels/factories.h"
#include "cpu/kernels/split.h"
#include "cpu/simd/functions.h"
#include "graph/op.h"

#include <bit>
#include <cmath>
#include <string_view>

namespace dllm::cpu {
namespace {

template <class T, class R, class Op> Kernel make(const CompileInfo& info, Op op) {
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

Kernel make_function(const CompileInfo& info, MapFn function) {
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

// Integers wrap: the negative of the smallest one is itself.
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
  return x; // zeros keep their sign, NaN stays
}
float round_even(float x) {
  if (!(std::fabs(x) < 8388608.0f)) return x; // whole already
  const float magic = std::copysign(8388608.0f, x);
  return std::copysign((x + magic) - magic, x);
}

template <class F> Kernel make_signed(const CompileInfo& info, F op) {
  return info.input(0).dtype == DType::i32 ? make<int32_t, int32_t>(info, op)
                                           : make<float, float>(info, op);
}

} // namespace

Kernel make_unary(const CompileInfo& info) {
  const std::string_view name = info.node.op->name;
  if (const MapFn function = find_function(name)) return make_function(info, function);
  if (name == "negate") return make_signed(info, [](auto x) { return negative_of(x); });
  if (name == "absolute") return make_signed(info, [](auto x) { return size_of(x); });
  if (name == "sign") return make_signed(info, [](auto x) { return sign_of(x); });
  if (name == "floor") return make<float, float>(info, [](float x) { return std::floor(x); });
  if (name == "round") return make<float, float>(info, [](float x) { return round_even(x); });
  if (name == "is_finite") {
    return make<float, uint8_t>(info, [](float x) -> uint8_t {
      return (std::bit_cast<uint32_t>(x) & 0x7F800000u) != 0x7F800000u;
    });
  }
  if (name == "logical_not") {
    return make<uint8_t, uint8_t>(info, [](uint8_t x) { return static_cast<uint8_t>(1 - x); });
  }
  fail(Code::internal, "{} is no unary operation", name);
}

} // namespace dllm::cpu
