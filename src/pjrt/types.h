#pragma once
// Element types of arrays as plugins number them.

#include "pjrt/abi/base.h"
#include "tensor/dtype.h"

namespace dllm::pjrt {

abi::BufferType buffer_type(DType dtype);
DType dtype_of(
    abi::BufferType type); // fails with unimplemented for types that arrays here cannot have

} // namespace dllm::pjrt
