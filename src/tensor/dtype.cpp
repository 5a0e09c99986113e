#include "tensor/dtype.h"

#include "base/error.h"
#include "base/named_table.h"
#include "base/task.h"

#include <limits>

namespace dllm {
namespace {

struct Row {
  DType dtype;
  const char* name;
  int64_t size;
};

constexpr Row kTypes[] = {{DType::f32, "f32", 4}, {DType::f16, "f16", 2}, {DType::bf16, "bf16", 2},
                          {DType::f64, "f64", 8}, {DType::i32, "i32", 4}, {DType::i64, "i64", 8},
                          {DType::u8, "u8", 1},   {DType::i8, "i8", 1},   {DType::u32, "u32", 4}};

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

template <class T> double widen(T value) {
  return static_cast<double>(value);
}
double widen(F16 value) {
  return f16_to_f32(value.bits);
}
double widen(BF16 value) {
  return bf16_to_f32(value.bits);
}

// Clamps to the range of an integer type, because casting NaN or a number out of range is
// undefined.
template <class T> struct Narrow {
  static T from(double value) {
    using Limits = std::numeric_limits<T>;
    if (!(value > static_cast<double>(Limits::lowest())))
      return value == value ? Limits::lowest() : T{0};
    return value >= static_cast<double>(Limits::max()) ? Limits::max() : static_cast<T>(value);
  }
};
template <> struct Narrow<float> {
  static float from(double value) { return static_cast<float>(value); }
};
template <> struct Narrow<double> {
  static double from(double value) { return value; }
};
template <> struct Narrow<F16> {
  static F16 from(double value) { return {f32_to_f16(static_cast<float>(value))}; }
};
template <> struct Narrow<BF16> {
  static BF16 from(double value) { return {f32_to_bf16(static_cast<float>(value))}; }
};

template <class From, class To> void convert_loop(const void* src, void* dst, int64_t count) {
  const auto* from = static_cast<const From*>(src);
  auto* to = static_cast<To*>(dst);
  for (int64_t i = 0; i < count; ++i) to[i] = Narrow<To>::from(widen(from[i]));
}

template <class F> void with_type(DType dtype, F&& f) {
  switch (dtype) {
  case DType::f32: return f(float{});
  case DType::f16: return f(F16{});
  case DType::bf16: return f(BF16{});
  case DType::f64: return f(double{});
  case DType::i32: return f(int32_t{});
  case DType::i64: return f(int64_t{});
  case DType::u8: return f(uint8_t{});
  case DType::i8: return f(int8_t{});
  case DType::u32: return f(uint32_t{});
  }
}

} // namespace

int64_t dtype_size(DType dtype) {
  for (const Row& row : kTypes) {
    if (row.dtype == dtype) return row.size;
  }
  return 0;
}

const char* dtype_name(DType dtype) {
  for (const Row& row : kTypes) {
    if (row.dtype == dtype) return row.name;
  }
  return "?";
}

DType dtype_from_name(std::string_view name) {
  return need_named(kTypes, name, &Row::name, {"element type"}).dtype;
}

DType dtype_from_number(int32_t number) {
  for (const Row& row : kTypes) {
    if (number == static_cast<int32_t>(row.dtype)) return row.dtype;
  }
  fail_with_hint("use DLLM_F32 (1) to DLLM_U32 (9)", Code::invalid_argument,
                 "{} is not an element type", number);
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f64;
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  uint32_t exponent = bits >> 10 & 0x1Fu;
  uint32_t mantissa = bits & 0x3FFu;
  uint32_t word;
  if (exponent == 31) {
    word = sign | 0x7F800000u | mantissa << 13;
  } else if (exponent != 0) {
    word = sign | (exponent + 112) << 23 | mantissa << 13;
  } else if (mantissa == 0) {
    word = sign;
  } else { // subnormal: shift the leading one into place
    exponent = 113;
    while ((mantissa & 0x400u) == 0) {
      mantissa <<= 1;
      --exponent;
    }
    word = sign | exponent << 23 | (mantissa & 0x3FFu) << 13;
  }
  float value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

uint16_t f32_to_f16(float value) {
  uint32_t word;
  std::memcpy(&word, &value, sizeof word);
  const auto sign = static_cast<uint16_t>(word >> 16 & 0x8000u);
  const uint32_t magnitude = word & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | 0x7E00u;
  if (magnitude >= 0x477FF000u) return sign | 0x7C00u; // rounds to infinity
  if (magnitude < 0x33000001u) return sign;            // rounds to zero
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
  const int shift = exponent < -14 ? -exponent - 1 : 13; // subnormals lose more bits
  uint32_t result = mantissa >> shift;
  const uint32_t rest = mantissa & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  if (rest > half || (rest == half && (result & 1u))) ++result;
  if (exponent >= -14) result += static_cast<uint32_t>(exponent + 14) << 10;
  return sign | static_cast<uint16_t>(result);
}

void convert(DType from, const void* src, DType to, void* dst, int64_t count, const Task* task) {
  constexpr int64_t kPiece = int64_t{1} << 18;
  if (from == to) return copy_in_pieces(dst, src, count * dtype_size(from), task);
  const auto* in = static_cast<const std::byte*>(src);
  auto* out = static_cast<std::byte*>(dst);
  const int64_t in_size = dtype_size(from), out_size = dtype_size(to);
  with_type(from, [&](auto a) {
    with_type(to, [&](auto b) {
      in_pieces(count, kPiece, task, [&](int64_t begin, int64_t end) {
        convert_loop<decltype(a), decltype(b)>(in + begin * in_size, out + begin * out_size,
                                               end - begin);
      });
    });
  });
}

} // namespace dllm
