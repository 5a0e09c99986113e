// convert between f32, bf16, i32, u32, u8 and i8. Floats are rounded toward zero to integers,
// saturate, and NaN becomes 0. Narrower integers keep the low bits. f32 is rounded to the nearest
// bf16, with ties to even.

#include "base/error.h"
#include "cpu/kernel.h"
#include "cpu/kernels/rows/rows.h"

#include <limits>
#include <type_traits>

namespace dllm::cpu {
namespace {

struct Bf16 {
  uint16_t bits;
};

template <class T> auto widen(T x) {
  if constexpr (std::is_same_v<T, Bf16>)
    return bf16_to_f32(x.bits);
  else
    return x;
}

template <class To, class From> To convert_one(From value) {
  const auto x = widen(value);
  using X = decltype(x);
  if constexpr (std::is_same_v<To, Bf16>) {
    return Bf16{f32_to_bf16(static_cast<float>(x))};
  } else if constexpr (std::is_floating_point_v<std::remove_const_t<X>> && std::is_integral_v<To>) {
    if (x != x) return To{0};
    if (static_cast<double>(x) >= static_cast<double>(std::numeric_limits<To>::max()))
      return std::numeric_limits<To>::max();
    if (static_cast<double>(x) <= static_cast<double>(std::numeric_limits<To>::min()))
      return std::numeric_limits<To>::min();
    return static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

// These two use vectors, because activations that are kept for a gradient are converted to bf16 and
// back in every step.
void convert_range(const float* x, Bf16* y, int64_t count) {
  rows().round_bf16(x, count, &y->bits);
}
void convert_range(const Bf16* x, float* y, int64_t count) {
  rows().widen_bf16(&x->bits, count, y);
}
template <class From, class To> void convert_range(const From* x, To* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) y[i] = convert_one<To>(x[i]);
}

template <class From, class To> Kernel make_convert_of(int64_t count) {
  Kernel kernel;
  kernel.elementwise = sizeof(From) == sizeof(To);
  kernel.run = [count](const KernelCall& call) {
    const From* x = call.inputs[0].in<From>();
    To* y = call.outputs[0].out<To>();
    split(call.pool, count, grain_of(2),
          [&](int64_t begin, int64_t end) { convert_range(x + begin, y + begin, end - begin); });
  };
  return kernel;
}

template <class From> Kernel make_from(const CompileInfo& info) {
  const int64_t count = info.input(0).shape.count();
  switch (info.output(0).dtype) {
  case DType::f32: return make_convert_of<From, float>(count);
  case DType::bf16: return make_convert_of<From, Bf16>(count);
  case DType::i32: return make_convert_of<From, int32_t>(count);
  case DType::u32: return make_convert_of<From, uint32_t>(count);
  case DType::u8: return make_convert_of<From, uint8_t>(count);
  case DType::i8: return make_convert_of<From, int8_t>(count);
  default: fail(Code::internal, "[convert] has no kernel for {}", info.output(0).text());
  }
}

Kernel make_convert(const CompileInfo& info) {
  if (info.input(0).dtype == info.output(0).dtype) return view_kernel();
  switch (info.input(0).dtype) {
  case DType::f32: return make_from<float>(info);
  case DType::bf16: return make_from<Bf16>(info);
  case DType::i32: return make_from<int32_t>(info);
  case DType::u32: return make_from<uint32_t>(info);
  case DType::u8: return make_from<uint8_t>(info);
  case DType::i8: return make_from<int8_t>(info);
  default: fail(Code::internal, "[convert] has no kernel for {}", info.input(0).text());
  }
}

constexpr KernelEntry kConvertKernels[] = {
    {"convert", make_convert},
};

} // namespace

KernelList convert_kernels() {
  return kConvertKernels;
}

} // namespace dllm::cpu
