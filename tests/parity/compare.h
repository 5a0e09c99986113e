#pragma once
// Numbers against golden numbers: |got - want| <= absolute + relative * |want|, element by element.

#include "tensor/tensor.h"

#include <cstdint>
#include <string>

namespace dllm::parity {

struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// The element that comes nearest to its limit, or passes it most.
struct Worst {
  double error = 0;
  double limit = 0;
  int64_t index = -1;
  bool within = true;
};

// Any number types. A NaN or infinity equals itself alone. Fails with invalid_argument when the
// shapes differ. rows: u8 of the leading axes, 0: not compared; undefined: all are.
Worst compare(const Tensor& got, const Tensor& want, Tolerance tolerance, const Tensor& rows = {});

} // namespace dllm::parity
