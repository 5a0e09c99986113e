// z = x op y, elementwise over f32, i32, u32 and u8. The sources of `broadcast` operands are read
// in place.

#include "base/error.h"
#include "cpu/kernel.h"
#include "cpu/kernels/strides.h"
#include "cpu/simd/functions.h"
#include "graph/op.h"

#include <cmath>
#include <string_view>
#include <type_traits>

namespace dllm::cpu {
namespace {

template <class T>
using Bits =
    std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>, std::type_identity<T>>;

// Computes op on unsigned bits, so integers wrap.
template <class T, class F> T wrapping(T x, T y, F op) {
  using U = typename Bits<T>::type;
  return static_cast<T>(op(static_cast<U>(x), static_cast<U>(y)));
}

struct Add {
  template <class T> T operator()(T x, T y) const {
    return wrapping(x, y, [](auto a, auto b) { return a + b; });
  }
};
struct Subtract {
  template <class T> T operator()(T x, T y) const {
    return wrapping(x, y, [](auto a, auto b) { return a - b; });
  }
};
struct Multiply {
  template <class T> T operator()(T x, T y) const {
    return wrapping(x, y, [](auto a, auto b) { return a * b; });
  }
};
struct Divide {
  template <class T> T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>) return x / y;
    if (y == T{0}) return T{0};
    if (std::is_signed_v<T> && y == static_cast<T>(-1))
      return wrapping(T{0}, x, [](auto a, auto b) { return a - b; });
    return static_cast<T>(x / y);
  }
};
struct Remainder {
  template <class T> T operator()(T x, T y) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fmod(x, y); // exact, so the same on every machine
    else {
      if (y == T{0}) return x;
      if (std::is_signed_v<T> && y == static_cast<T>(-1)) return T{0};
      return static_cast<T>(x % y);
    }
  }
};
// Minimum and Maximum return NaN if an operand is NaN.
struct Minimum {
  template <class T> T operator()(T x, T y) const {
    return x != x ? x : (y != y ? y : (y < x ? y : x));
  }
};
struct Maximum {
  template <class T> T operator()(T x, T y) const {
    return x != x ? x : (y != y ? y : (x < y ? y : x));
  }
};
struct Power {
  float operator()(float x, float y) const { return power(x, y); }
};
struct And {
  template <class T> T operator()(T x, T y) const { return static_cast<T>(x & y); }
};
struct Or {
  template <class T> T operator()(T x, T y) const { return static_cast<T>(x | y); }
};
struct Xor {
  template <class T> T operator()(T x, T y) const { return static_cast<T>(x ^ y); }
};
template <class T> uint32_t as_bits(T x) {
  return static_cast<uint32_t>(x);
}
struct ShiftLeft {
  template <class T> T operator()(T x, T y) const {
    return as_bits(y) >= 32 ? T{0} : static_cast<T>(as_bits(x) << as_bits(y));
  }
};
struct ShiftRight {
  template <class T> T operator()(T x, T y) const {
    return as_bits(y) >= 32 ? T{0} : static_cast<T>(as_bits(x) >> as_bits(y));
  }
};
struct Equal {
  template <class T> uint8_t operator()(T x, T y) const { return x == y; }
};
struct NotEqual {
  template <class T> uint8_t operator()(T x, T y) const { return x != y; }
};
struct Less {
  template <class T> uint8_t operator()(T x, T y) const { return x < y; }
};
struct LessEqual {
  template <class T> uint8_t operator()(T x, T y) const { return x <= y; }
};
struct Greater {
  template <class T> uint8_t operator()(T x, T y) const { return x > y; }
};
struct GreaterEqual {
  template <class T> uint8_t operator()(T x, T y) const { return x >= y; }
};

template <class T, class R, class Op>
void run_piece(const T* x, int64_t x_step, const T* y, int64_t y_step, R* z, int64_t count, Op op) {
  if (x_step == 1 && y_step == 1) {
    for (int64_t i = 0; i < count; ++i) z[i] = op(x[i], y[i]);
  } else if (x_step == 1) {
    const T right = *y;
    for (int64_t i = 0; i < count; ++i) z[i] = op(x[i], right);
  } else if (y_step == 1) {
    const T left = *x;
    for (int64_t i = 0; i < count; ++i) z[i] = op(left, y[i]);
  } else {
    const R same = op(*x, *y);
    for (int64_t i = 0; i < count; ++i) z[i] = same;
  }
}

template <class T, class Op> Kernel make_zip(const CompileInfo& info, Op op, int64_t cost) {
  using R = decltype(op(T{}, T{}));
  Kernel kernel;
  const Broadcasting layout(info, kernel);
  kernel.elementwise = true;
  kernel.run = [layout, op, cost](const KernelCall& call) {
    const T* x = call.inputs[0].in<T>();
    const T* y = call.inputs[1].in<T>();
    R* z = call.outputs[0].out<R>();
    split(call.pool, layout.count(), grain_of(cost), [&](int64_t begin, int64_t end) {
      layout.for_each(begin, end, [&](int64_t out, const Broadcasting::In* in, int64_t count) {
        run_piece(x + in[0].offset, in[0].step, y + in[1].offset, in[1].step, z + out, count, op);
      });
    });
  };
  return kernel;
}

[[noreturn]] void no_type(const CompileInfo& info) {
  fail(Code::internal, "[{}] has no kernel for {}", info.node.op->name, info.input(0).text());
}

template <class Op> Kernel make_arithmetic(const CompileInfo& info) {
  switch (info.input(0).dtype) {
  case DType::f32: return make_zip<float>(info, Op(), 1);
  case DType::i32: return make_zip<int32_t>(info, Op(), 1);
  case DType::u32: return make_zip<uint32_t>(info, Op(), 1);
  default: no_type(info);
  }
}

template <class Op> Kernel make_comparison(const CompileInfo& info) {
  return info.input(0).dtype == DType::u8 ? make_zip<uint8_t>(info, Op(), 1)
                                          : make_arithmetic<Op>(info);
}

template <class Op> Kernel make_bitwise(const CompileInfo& info) {
  switch (info.input(0).dtype) {
  case DType::u8: return make_zip<uint8_t>(info, Op(), 1);
  case DType::i32: return make_zip<int32_t>(info, Op(), 1);
  case DType::u32: return make_zip<uint32_t>(info, Op(), 1);
  default: no_type(info);
  }
}

template <class Op> Kernel make_shift(const CompileInfo& info) {
  switch (info.input(0).dtype) {
  case DType::i32: return make_zip<int32_t>(info, Op(), 1);
  case DType::u32: return make_zip<uint32_t>(info, Op(), 1);
  default: no_type(info);
  }
}

Kernel make_power(const CompileInfo& info) {
  return make_zip<float>(info, Power(), 60);
}

constexpr KernelEntry kBinaryKernels[] = {
    {"add", make_arithmetic<Add>},
    {"divide", make_arithmetic<Divide>},
    {"equal", make_comparison<Equal>},
    {"greater", make_comparison<Greater>},
    {"greater_equal", make_comparison<GreaterEqual>},
    {"less", make_comparison<Less>},
    {"less_equal", make_comparison<LessEqual>},
    {"logical_and", make_bitwise<And>},
    {"logical_or", make_bitwise<Or>},
    {"logical_xor", make_bitwise<Xor>},
    {"maximum", make_arithmetic<Maximum>},
    {"minimum", make_arithmetic<Minimum>},
    {"multiply", make_arithmetic<Multiply>},
    {"not_equal", make_comparison<NotEqual>},
    {"power", make_power},
    {"remainder", make_arithmetic<Remainder>},
    {"shift_left", make_shift<ShiftLeft>},
    {"shift_right_logical", make_shift<ShiftRight>},
    {"subtract", make_arithmetic<Subtract>},
};

} // namespace

KernelList binary_kernels() {
  return kBinaryKernels;
}

} // namespace dllm::cpu
