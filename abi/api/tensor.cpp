#include "handles.h"

#include <cmath>
#include <cstring>

using namespace dllm;
using namespace dllm::abi;

namespace {

constexpr int64_t kMaxRank = 8;

struct Range {
  double low, high;
};

Range integer_range(DType dtype) {
  switch (dtype) {
  case DType::i32: return {-2147483648.0, 2147483647.0};
  case DType::i64: return {-9223372036854775808.0, 9223372036854774784.0};
  case DType::u8: return {0, 255};
  case DType::i8: return {-128, 127};
  case DType::u32: return {0, 4294967295.0};
  default: return {0, 0};
  }
}

// Fails when a conversion would lose more than rounding: a number that is cut or wraps around.
void check_loss(const Tensor& from, DType to) {
  if (is_float(to) || from.dtype() == to) return;
  const Tensor wide = from.to(DType::f64);
  const Range range = integer_range(to);
  for (double value : wide.as<double>()) {
    if (value != std::floor(value) || value < range.low || value > range.high) {
      fail(Code::invalid_argument, "{} does not fit into {}", value, dtype_name(to));
    }
  }
}

} // namespace

Tensor dllm::abi::tensor_from(int32_t dtype, const int64_t* dims, int64_t rank, const void* data) {
  const DType type = dtype_from_number(dtype);
  if (rank < 0 || rank > kMaxRank)
    fail(Code::invalid_argument, "rank {} is not in 0 to {}", rank, kMaxRank);
  const auto extents = need_array(dims, rank, "dims");
  Shape shape = checked_shape({extents.begin(), extents.end()}, dtype_size(type), "the array");
  if (shape.count() > 0 && data == nullptr) fail(Code::invalid_argument, "data is NULL");
  Tensor made(type, std::move(shape));
  if (made.count() > 0)
    std::memcpy(made.mutable_bytes(), data, static_cast<size_t>(made.byte_size()));
  return made;
}

dllm_status dllm_tensor_new(int32_t dtype, const int64_t* dims, int64_t rank, const void* data,
                            dllm_tensor** out, dllm_error* err) {
  return guard(err, [&] {
    need_out(out, "out");
    *out = new dllm_tensor(tensor_from(dtype, dims, rank, data));
  });
}

void dllm_tensor_release(dllm_tensor* tensor) {
  release(tensor);
}

int32_t dllm_tensor_dtype(const dllm_tensor* tensor) {
  const Held held(tensor);
  return held ? static_cast<int32_t>(held->object.dtype()) : 0;
}

int64_t dllm_tensor_rank(const dllm_tensor* tensor) {
  const Held held(tensor);
  return held ? held->object.shape().rank() : 0;
}

int64_t dllm_tensor_dim(const dllm_tensor* tensor, int64_t axis) {
  const Held held(tensor);
  if (!held || axis < 0 || axis >= held->object.shape().rank()) return 0;
  return held->object.shape()[axis];
}

const void* dllm_tensor_data(const dllm_tensor* tensor) {
  const Held held(tensor);
  return held ? held->object.bytes() : nullptr;
}

dllm_status dllm_tensor_read(const dllm_tensor* tensor, int32_t dtype, void* dst, int64_t dst_size,
                             dllm_error* err) {
  return guard(err, [&] {
    const Tensor& from = need(tensor, "tensor").object;
    const DType type = dtype_from_number(dtype);
    const auto room = need_array(static_cast<std::byte*>(dst), dst_size, "dst");
    const int64_t bytes = from.count() * dtype_size(type);
    if (dst_size != bytes)
      fail(Code::out_of_range, "dst has {} bytes, {} are needed", dst_size, bytes);
    check_loss(from, type);
    if (bytes > 0) convert(from.dtype(), from.bytes(), type, room.data(), from.count());
  });
}
