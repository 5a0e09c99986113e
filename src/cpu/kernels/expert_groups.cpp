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
      in_(info.input(input).numbers().dim(2)),
      stored_(panel_form(info.arithmetic, info.input(input).dtype, info.input(input).format, in_,
                         form == kPackedTransposed && info.input(input).format == nullptr)),
      panels_(stored_) {
  expect_lanes("expert_linear", info.input(input));
  if (stored_.format != nullptr && form_ == kPackedTransposed) {
    panels_ = {DType::f32, nullptr, PanelLayout::elements, true};
    transposed_ = layout.add(experts_ * panels_.bytes(out_, in_));
  }
  if (!kept_) scratch_ = layout.add(experts_ * stored_.bytes(out_, in_));
}

const std::byte* ExpertWeights::panels(const KernelCall& call, const ExpertGroups& groups) const {
  const Operand& operand = call.inputs[input_];
  const std::byte* made = call.scratch + scratch_;
  if (kept_) {
    made = kept_form(form_, stored_.format) == kPacked ? operand.packed : operand.packed_transposed;
    if (made == nullptr) fail(Code::internal, "[expert_linear] a kept weight has no packed form");
    if (transposed_ < 0) return made;
  }
  const WeightFormat* format = stored_.format;
  const int64_t plain =
      out_ * (format != nullptr ? format->row_bytes(in_) : in_ * dtype_size(stored_.dtype));
  const int64_t step = stored_.bytes(out_, in_);
  for (int64_t e = 0; e < experts_; ++e) {
    if (groups.size(e) == 0) continue;
    const std::byte* packed = made + e * step;
    if (!kept_)
      pack(stored_, operand.data + e * plain, out_, in_, call.scratch + scratch_ + e * step,
           call.pool);
    if (transposed_ >= 0) {
      std::byte* to = call.scratch + transposed_ + e * panels_.bytes(out_, in_);
      pack_dequantized(stored_, packed, out_, in_, reinterpret_cast<float*>(to), call.pool);
    }
  }
  return transposed_ >= 0 ? call.scratch + transposed_ : made;
}

Gemm ExpertWeights::gemm(const std::byte* panels, int64_t expert) const {
  Gemm gemm;
  gemm.b = panels + expert * panels_.bytes(out_, in_);
  gemm.b_type = panels_.dtype;
  gemm.b_format = panels_.format;
  gemm.layout = panels_.layout;
  gemm.n = panels_.transposed ? in_ : out_;
  gemm.k = panels_.transposed ? out_ : in_;
  return gemm;
}

} // namespace dllm::cpu
