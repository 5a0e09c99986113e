#pragma once
#include "check.h"
#include "dllm/tensor.h"
#include "guard.h"
#include "tensor/tensor.h"

struct dllm_tensor : dllm::abi::Handle<dllm::abi::Kind::tensor> {
  explicit dllm_tensor(dllm::Tensor held) : object(std::move(held)) {}
  dllm::Tensor object;
};

namespace dllm::abi {

// A checked copy of a caller's array.
Tensor tensor_from(int32_t dtype, const int64_t* dims, int64_t rank, const void* data);

}  // namespace dllm::abi
