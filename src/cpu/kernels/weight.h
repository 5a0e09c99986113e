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
  FormSet wants() const;
  int64_t out() const { return out_; }
  int64_t in() const { return in_; }
  // Bytes of one panel of the packed form: 16 rows, whole chains.
  int64_t panel_bytes() const;
  // The panels; packs them first when the operand has only its plain form.
  const std::byte* panels(const KernelCall& call) const;
  // b, b_type or b_format, n, k of the product.
  Gemm gemm(const KernelCall& call) const { return product(panels(call)); }
  Gemm product(const std::byte* panels) const;

private:
  size_t input_;
  Form form_;
  bool kept_;
  int64_t out_, in_;
  DType dtype_;
  const WeightFormat* format_; // of a weight in blocks, or null
  int64_t scratch_ = -1;       // packed here when no form is kept
  int64_t turned_ = -1;        // blocks, transposed: f32 panels
};

// The packed form kept for an operand; blocks have no transposed one, theirs is made from kPacked.
inline Form kept_form(Form form, const WeightFormat* format) {
  return format != nullptr ? kPacked : form;
}
// Fails when products cannot read the format.
void expect_lanes(const char* op, const graph::ValueType& weight);

} // namespace dllm::cpu
