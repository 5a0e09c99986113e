#pragma once
// A tensor over bytes, without a copy where the address allows it.

#include "base/bytes.h"
#include "tensor/tensor.h"

#include <cstdint>
#include <cstring>
#include <utility>

namespace dllm::ckpt {

// REQUIRES: bytes.size() fits the type and shape.
inline Tensor view_or_copy(DType dtype, Shape shape, const Bytes& bytes) {
  const auto address = reinterpret_cast<uintptr_t>(bytes.data());
  if (address % static_cast<uintptr_t>(dtype_size(dtype)) == 0)
    return Tensor(dtype, std::move(shape), bytes);
  Tensor copy(dtype, std::move(shape));
  if (!bytes.empty()) std::memcpy(copy.mutable_bytes(), bytes.data(), bytes.size());
  return copy;
}

} // namespace dllm::ckpt
