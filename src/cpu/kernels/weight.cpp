#include "cpu/kernels/weight.h"

#include "base/error.h"

namespace dllm::cpu {

void expect_lanes(const char* op, const graph::ValueType& weight) {
  if (weight.format == nullptr || gemm_reads(*weight.format)) return;
  fail(Code::unimplemented, "[{}] no lane loader for weights {}", op, weight.text());
}

WeightOperand::WeightOperand(const CompileInfo& info, size_t input, Form form,
                             ScratchLayout& layout)
    : input_(input), form_(form), kept_(input < info.keeps_forms.size() && info.keeps_forms[input]),
      out_(info.input(input).numbers().dim(0)), in_(info.input(input).numbers().dim(1)),
      dtype_(info.input(input).dtype), format_(info.input(input).format) {
  const bool transposed = form_ == kPackedTransposed;
  expect_lanes("linear", info.input(input));
  if (format_ != nullptr && transposed) {
    dtype_ = DType::f32;
    turned_ = layout.add(packed_bytes(in_, out_, DType::f32));
  }
  if (kept_) return;
  scratch_ = layout.add(format_ != nullptr ? packed_bytes(*format_, out_, in_)
                        : transposed       ? packed_bytes(in_, out_, dtype_)
                                           : packed_bytes(out_, in_, dtype_));
}

FormSet WeightOperand::wants() const {
  return kept_ ? kept_form(form_, format_) : kPlain;
}

int64_t WeightOperand::panel_bytes() const {
  const bool transposed = form_ == kPackedTransposed;
  if (format_ != nullptr && !transposed) return kPanel * format_->row_bytes(in_);
  return kPanel * (transposed ? out_ : in_) * dtype_size(dtype_);
}

const std::byte* WeightOperand::panels(const KernelCall& call) const {
  const Operand& operand = call.inputs[input_];
  const bool transposed = form_ == kPackedTransposed;
  const std::byte* made = call.scratch + scratch_;
  if (kept_) {
    made = kept_form(form_, format_) == kPacked ? operand.packed : operand.packed_transposed;
    if (made == nullptr) fail(Code::internal, "[linear] a kept weight has no packed form");
  } else if (format_ != nullptr) {
    pack(*format_, operand.data, out_, in_, call.scratch + scratch_, call.pool);
  } else if (transposed) {
    pack_transposed(dtype_, operand.data, in_, in_, out_, call.scratch + scratch_, call.pool);
  } else {
    pack(dtype_, operand.data, in_, out_, in_, call.scratch + scratch_, call.pool);
  }
  if (turned_ < 0) return made;
  std::byte* turned = call.scratch + turned_;
  pack_dequantized(*format_, made, out_, in_, reinterpret_cast<float*>(turned), call.pool);
  return turned;
}

Gemm WeightOperand::product(const std::byte* panels) const {
  const bool transposed = form_ == kPackedTransposed;
  Gemm gemm;
  gemm.b = panels;
  gemm.b_type = dtype_;
  gemm.b_format = transposed ? nullptr : format_;
  gemm.n = transposed ? in_ : out_;
  gemm.k = transposed ? out_ : in_;
  return gemm;
}

} // namespace dllm::cpu
