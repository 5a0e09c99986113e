#pragma once
// The peer of gemm_bench: y (m, n) = x (m, k) w (n, k)^T in f32. Two bodies, chosen by CMake.

#include <cstdint>
#include <memory>

class OtherGemm {
public:
  OtherGemm(const float* x, const float* w, float* y, int64_t m, int64_t n, int64_t k, int threads);
  ~OtherGemm();
  void run();
  static const char* name();

private:
  struct State;
  std::unique_ptr<State> state_;
};
