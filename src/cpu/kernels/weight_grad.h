#pragma once
// WeightGradient computes the gradient of a weight as a product.

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"

namespace dllm::cpu {

// Computes dw (out, in) = dy^T x over at most `rows` rows at a time. x is packed into panels and dy
// is transposed. In f32 a part of the outputs is transposed into rows of its own before the
// product. Columns of dy in place are so far apart that they use few sets of the first-level cache
// (0.4 to 0.7 of the rate). Other arithmetics transpose dy when they round it.
class WeightGradient {
public:
  // `out` is the largest number of outputs in one call of add().
  WeightGradient(Arithmetic arithmetic, int64_t rows, int64_t out, int64_t in,
                 ScratchLayout& layout);

  // Packs x (rows, in), which the next calls of add() multiply.
  void set_rows(const KernelCall& call, const float* x, int64_t rows) const;
  // Writes dw = dy^T x, or with `more` adds it to dw, the sum of earlier rows. The rows of dy
  // (rows, out) are `stride` numbers apart.
  void add(const KernelCall& call, const float* dy, int64_t stride, int64_t rows, int64_t out,
           float* dw, bool more) const;

private:
  int64_t in_;
  PanelForm form_;
  int64_t panels_, rounded_;
  int64_t turned_ = -1, turned_stride_ = 0, turned_out_ = 0; // dy^T; f32 only
};

} // namespace dllm::cpu
