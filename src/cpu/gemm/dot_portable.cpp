// Machines other than x86-64 have only the kernels of Highway's targets.

#include "cpu/gemm/dot.h"

namespace dllm::cpu {

const DotKernel* amx_bf16_kernel() {
  return nullptr;
}
const DotKernel* amx_int8_kernel() {
  return nullptr;
}
const DotKernel* avx512_bf16_kernel() {
  return nullptr;
}
const DotKernel* avx512_vnni_kernel() {
  return nullptr;
}
const DotKernel* avx_vnni_kernel() {
  return nullptr;
}

} // namespace dllm::cpu
