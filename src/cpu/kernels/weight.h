#pragma once
// A weight matrix as an operand of a product: packed for good when the engine keeps its forms, else
// packed per call.

#include "cpu/gemm/gemm.h"
#include "cpu/kernel.h"
#include "cpu/kernels/split.h"

namespace dllm::cpu {

// How one weight (out, in) enters x w^T (kPacked) or dy w (kPackedTransposed).
class WeightOperand {
public:
  // input: index in the node. Adds the scratch it needs to `layout`.
  WeightOperand(const CompileInfo& info, size_t input, Form form, ScratchLayout& layout);

  size_t input() const { return input_; }
  FormSet wants() const { return kept_ ? form_ : kPlain; }
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  DType dtype() const { return dtype_; }
  // The panels; packs them first when the operand has only its plain form.
  const std::byte* panels(const KernelCall& call) const;
  // b, b_type, n, k of the product.
  Gemm gemm(const KernelCall& call) const;

private:
  size_t input_;
  Form form_;
  bool kept_;
  int64_t out_, in_;
  DType dtype_;
  int64_t scratch_ = -1;
};

} // namespace dllm::cpu
