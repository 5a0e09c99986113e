#pragma once
// The peer of gemm_bench: y (m, n) = x (m, k) w (n, k)^T, y in f32. Two bodies, chosen by CMake.

#include "tensor/dtype.h"

#include <cstdint>
#include <memory>

class OtherGemm {
public:
  // dtype: of both operands, f32, bf16 or i8; they are converted here, so that a run is the product
  // alone.
  OtherGemm(dllm::DType dtype, const float* x, const float* w, float* y, int64_t m, int64_t n,
            int64_t k, int threads);
  ~OtherGemm();
  void run();
  static const char* name();
  static bool has(dllm::DType dtype);

private:
  struct State;
  std::unique_ptr<State> state_;
};
