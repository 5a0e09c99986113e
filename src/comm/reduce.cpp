#include "comm/communicator.h"

#include "base/error.h"

#include <cmath>
#include <cstring>
#include <type_traits>

namespace dllm::comm {
namespace {

template <class T> T joined(Reduction reduction, T x, T y) {
  if (reduction == Reduction::sum) {
    if constexpr (std::is_same_v<T, int32_t>) {
      return static_cast<T>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y));
    } else {
      return x + y;
    }
  }
  if constexpr (std::is_same_v<T, float>) {
    if (std::isnan(x) || std::isnan(y)) return x + y;
  }
  return x < y ? y : x;
}

template <class T>
void reduce_as(Reduction reduction, std::span<const void* const> parts, void* out, int64_t count) {
  T* const to = static_cast<T*>(out);
  if (parts[0] != out && count > 0)
    std::memcpy(to, parts[0], static_cast<size_t>(count) * sizeof(T));
  for (size_t p = 1; p < parts.size(); ++p) {
    const T* const from = static_cast<const T*>(parts[p]);
    for (int64_t i = 0; i < count; ++i) to[i] = joined(reduction, to[i], from[i]);
  }
}

} // namespace

const char* reduction_name(Reduction reduction) {
  return reduction == Reduction::sum ? "sum" : "max";
}

void reduce(Reduction reduction, DType dtype, std::span<const void* const> parts, void* out,
            int64_t count) {
  switch (dtype) {
  case DType::f32: return reduce_as<float>(reduction, parts, out, count);
  case DType::i32: return reduce_as<int32_t>(reduction, parts, out, count);
  case DType::u32: return reduce_as<uint32_t>(reduction, parts, out, count);
  default:
    fail(Code::unimplemented, "{} over ranks does not work for {}, expected f32, i32 or u32",
         reduction_name(reduction), dtype_name(dtype));
  }
}

} // namespace dllm::comm
