#pragma once
// The gradient of a weight as a product.

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"

namespace dllm::cpu {

// dw (out, in) = dy^T x over at most `rows` rows at a time: x goes into panels, dy is transposed first. In f32 into rows of its
// own, some outputs at a time: read in place, its columns lie so far apart that they fall on few sets of the near cache (0.4 to
// 0.7 of the rate). Other arithmetics transpose when they round.
class WeightGradient {
public:
  // out: most outputs of one call of add().
  WeightGradient(Arithmetic arithmetic, int64_t rows, int64_t out, int64_t in,
                 ScratchLayout& layout);

  // x (rows, in): what the following add() multiply.
  void set_rows(const KernelCall& call, const float* x, int64_t rows) const;
  // dw (+)= dy^T x; dy (rows, out), its rows `stride` numbers apart. more: dw holds the sum of earlier rows.
  void add(const KernelCall& call, const float* dy, int64_t stride, int64_t rows, int64_t out,
           float* dw, bool more) const;

private:
  int64_t in_;
  PanelForm form_;
  int64_t panels_, rounded_;
  int64_t turned_ = -1, turned_stride_ = 0, turned_out_ = 0; // f32: dy^T
};

} // namespace dllm::cpu
