#pragma once
// Tensors compared to the bit.

#include "tensor/tensor.h"

#include <cstring>

namespace dllm::test {

inline bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.bytes(), b.bytes(), static_cast<size_t>(a.byte_size())) == 0;
}

} // namespace dllm::test
