#include "cpu/kernels/expert_groups.h"

#include "base/error.h"

namespace dllm::cpu {

ExpertGroups::ExpertGroups(const ExpertShape& shape, const int32_t* chosen, std::byte* scratch)
    : shape_(shape), places_(reinterpret_cast<int32_t*>(scratch)),
      begins_(places_ + shape.pairs()) {
  int32_t* next = begins_ + shape.experts + 1;
  std::fill_n(next, shape.experts, 0);
  const auto exists = [&](int64_t pair) {
    return chosen[pair] >= 0 && chosen[pair] < shape.experts;
  };
  for (int64_t pair = 0; pair < shape.pairs(); ++pair) {
    if (exists(pair)) ++next[chosen[pair]];
  }
  begins_[0] = 0;
  for (int64_t e = 0; e < shape.experts; ++e) {
    active_ += next[e] > 0 ? 1 : 0;
    begins_[e + 1] = begins_[e] + next[e];
    next[e] = begins_[e];
  }
  for (int64_t pair = 0; pair < shape.pairs(); ++pair) {
    places_[pair] = exists(pair) ? next[chosen[pair]]++ : -1;
  }
}

void ExpertGroups::gather(const float* from, int64_t n, int64_t repeat, float* to,
                          const Workers& pool) const {
  split(pool, shape_.pairs(), grain_of(n), [&](int64_t begin, int64_t end) {
    for (int64_t pair = begin; pair < end; ++pair) {
      if (places_[pair] >= 0) std::copy_n(from + pair / repeat * n, n, to + places_[pair] * n);
    }
  });
}

ExpertWeights::ExpertWeights(const CompileInfo& info, size_t input, Form form,
                             ScratchLayout& layout)
    : input_(input), form_(form), kept_(input < info.keeps_forms.size() && info.keeps_forms[input]),
      experts_(info.input(input).numbers().dim(0)), out_(info.input(input).numbers().dim(1)),
      in_(info.input(input).numbers().dim(2)), dtype_(info.input(input).dtype),
      format_(info.input(input).format) {
  expect_lanes("expert_linear", info.input(input));
  if (format_ != nullptr && transposed()) {
    dtype_ = DType::f32;
    transposed_ = layout.add(experts_ * matrix_bytes());
  }
  if (!kept_) scratch_ = layout.add(experts_ * packed_matrix_bytes());
}

int64_t ExpertWeights::packed_matrix_bytes() const {
  return format_ != nullptr ? packed_bytes(*format_, out_, in_) : matrix_bytes();
}

int64_t ExpertWeights::matrix_bytes() const {
  if (transposed()) return packed_bytes(in_, out_, dtype_);
  return format_ != nullptr ? packed_bytes(*format_, out_, in_) : packed_bytes(out_, in_, dtype_);
}

void ExpertWeights::pack_matrix(const std::byte* from, std::byte* to, const Workers& pool) const {
  if (format_ != nullptr) return pack(*format_, from, out_, in_, to, pool);
  if (transposed()) return pack_transposed(dtype_, from, in_, in_, out_, to, pool);
  pack(dtype_, from, in_, out_, in_, to, pool);
}

const std::byte* ExpertWeights::panels(const KernelCall& call, const ExpertGroups& groups) const {
  const Operand& operand = call.inputs[input_];
  const std::byte* made = call.scratch + scratch_;
  if (kept_) {
    made = kept_form(form_, format_) == kPacked ? operand.packed : operand.packed_transposed;
    if (made == nullptr) fail(Code::internal, "[expert_linear] a kept weight has no packed form");
    if (transposed_ < 0) return made;
  }
  const int64_t plain =
      out_ * (format_ != nullptr ? format_->row_bytes(in_) : in_ * dtype_size(dtype_));
  for (int64_t e = 0; e < experts_; ++e) {
    if (groups.size(e) == 0) continue;
    const std::byte* packed = made + e * packed_matrix_bytes();
    if (!kept_)
      pack_matrix(operand.data + e * plain, call.scratch + scratch_ + e * packed_matrix_bytes(),
                  call.pool);
    if (transposed_ >= 0) {
      std::byte* to = call.scratch + transposed_ + e * matrix_bytes();
      pack_dequantized(*format_, packed, out_, in_, reinterpret_cast<float*>(to), call.pool);
    }
  }
  return transposed_ >= 0 ? call.scratch + transposed_ : made;
}

Gemm ExpertWeights::gemm(const std::byte* panels, int64_t expert) const {
  Gemm gemm;
  gemm.b = panels + expert * matrix_bytes();
  gemm.b_type = dtype_;
  gemm.b_format = transposed() ? nullptr : format_;
  gemm.n = transposed() ? in_ : out_;
  gemm.k = transposed() ? out_ : in_;
  return gemm;
}

} // namespace dllm::cpu
