#include "cpu/kernels/weight.h"

#include "base/error.h"

namespace dllm::cpu {

WeightOperand::WeightOperand(const CompileInfo& info, size_t input, Form form,
                             ScratchLayout& layout)
    : input_(input), form_(form), kept_(input < info.keeps_forms.size() && info.keeps_forms[input]),
      out_(info.input(input).shape.dim(0)), in_(info.input(input).shape.dim(1)),
      dtype_(info.input(input).dtype) {
  const bool transposed = form_ == kPackedTransposed;
  if (!kept_)
    scratch_ = layout.add(packed_bytes(transposed ? in_ : out_, transposed ? out_ : in_, dtype_));
}

const std::byte* WeightOperand::panels(const KernelCall& call) const {
  const Operand& operand = call.inputs[input_];
  const bool transposed = form_ == kPackedTransposed;
  if (kept_) {
    const std::byte* kept = transposed ? operand.packed_transposed : operand.packed;
    if (kept == nullptr) fail(Code::internal, "[linear] a kept weight has no packed form");
    return kept;
  }
  std::byte* packed = call.scratch + scratch_;
  if (transposed) {
    pack_transposed(dtype_, operand.data, in_, in_, out_, packed, call.pool);
  } else {
    pack(dtype_, operand.data, in_, out_, in_, packed, call.pool);
  }
  return packed;
}

Gemm WeightOperand::gemm(const KernelCall& call) const {
  const bool transposed = form_ == kPackedTransposed;
  Gemm gemm;
  gemm.b = panels(call);
  gemm.b_type = dtype_;
  gemm.n = transposed ? in_ : out_;
  gemm.k = transposed ? out_ : in_;
  return gemm;
}

} // namespace dllm::cpu
