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
    : input_(input), kept_(input < info.keeps_forms.size() && info.keeps_forms[input]),
      experts_(info.input(input).numbers().dim(0)), out_(info.input(input).numbers().dim(1)),
      in_(info.input(input).numbers().dim(2)), stored_(stored_form(info, input, form)),
      product_(product_of(info.arithmetic, stored_, out_, in_, form)) {
  expect_lanes("expert_linear", info.input(input));
  if (!kept_) scratch_ = layout.add(experts_ * stored_.bytes(out_, in_));
}

const std::byte* ExpertWeights::panels(const KernelCall& call, const ExpertGroups& groups) const {
  const Operand& operand = call.inputs[input_];
  if (kept_) {
    const std::byte* made =
        kept_form(stored_) == kPacked ? operand.packed : operand.packed_transposed;
    if (made == nullptr) fail(Code::internal, "[expert_linear] a kept weight has no packed form");
    return made;
  }
  const WeightFormat* format = stored_.format;
  const int64_t plain =
      out_ * (format != nullptr ? format->row_bytes(in_) : in_ * dtype_size(stored_.dtype));
  std::byte* to = call.scratch + scratch_;
  for (int64_t e = 0; e < experts_; ++e) {
    if (groups.size(e) > 0)
      pack(stored_, operand.data + e * plain, out_, in_, to + e * stored_.bytes(out_, in_),
           call.pool);
  }
  return to;
}

Gemm ExpertWeights::gemm(const std::byte* panels, int64_t expert) const {
  Gemm gemm = product_;
  gemm.b = panels + expert * stored_.bytes(out_, in_);
  return gemm;
}

ExpertProducts::ExpertProducts(const ExpertWeights& weights, const ExpertShape& shape,
                               ScratchLayout& layout)
    : weights_(weights), shape_(shape) {
  Gemm all = product(nullptr);
  all.m = shape.pairs();
  rounded_ = layout.add(rounded_bytes(all));
  expanded_ = layout.add(expanded_bytes(all));
}

// Experts have few rows, so f32 products read codes as they are.
Gemm ExpertProducts::product(const std::byte* panels) const {
  Gemm all = weights_.gemm(panels, 0);
  if (all.expansion == Expansion::rows && all.layout == PanelLayout::elements)
    all.expansion = Expansion::none;
  return all;
}

void ExpertProducts::run(const KernelCall& call, const ExpertGroups& groups, const float* a,
                         const float* scale, float* c) const {
  const std::byte* panels = weights_.panels(call, groups);
  Gemm all = product(panels);
  all.a = a;
  all.a_stride = all.k;
  all.c = c;
  all.c_stride = all.n;
  all.m = shape_.pairs();
  all.rounded = call.scratch + rounded_;
  all.expanded = call.scratch + expanded_;
  all.task = call.pool.task;
  const auto of_expert = [&](int64_t e) {
    Gemm gemm = all;
    gemm.b = weights_.gemm(panels, e).b;
    if (scale != nullptr) gemm.scale = scale + e * all.n;
    return gemm;
  };
  if (all.expansion != Expansion::none) { // one expert at a time has expanded panels
    for (int64_t e = 0; e < shape_.experts; ++e) {
      Gemm gemm = of_expert(e);
      gemm.a += groups.begin(e) * all.k;
      gemm.c += groups.begin(e) * all.n;
      gemm.m = groups.size(e);
      gemm_parallel(gemm, call.pool);
    }
    return;
  }
  const double flops = 2.0 * static_cast<double>(shape_.pairs() * all.k * all.n);
  round_activations(all, groups.begin(shape_.experts), call.pool);
  groups.each(call.pool, flops, panel_count(all.n), [&](int64_t e, int64_t first, int64_t last) {
    gemm_part(of_expert(e), groups.begin(e), groups.begin(e) + groups.size(e), first, last);
  });
}

} // namespace dllm::cpu
