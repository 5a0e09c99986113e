// Implements weight operands and heads (weight.h).

#include "cpu/kernels/weight.h"

#include "base/error.h"
#include "cpu/kernels/rows/rows.h"

#include <algorithm>

namespace dllm::cpu {

void expect_lanes(const char* op, const graph::ValueType& weight) {
  if (weight.format == nullptr || gemm_reads(*weight.format)) return;
  fail(Code::unimplemented, "[{}] has no lane loader for weights {}", op, weight.text());
}

PanelForm stored_form(const CompileInfo& info, size_t input, Form form) {
  const graph::ValueType& type = info.input(input);
  const int64_t in = type.numbers().dim(-1);
  const bool turns = PanelForm{type.dtype, type.format}.turns();
  return panel_form(info.arithmetic, type.dtype, type.format, in,
                    form == kPackedTransposed && !turns);
}

Gemm product_of(Arithmetic arithmetic, const PanelForm& stored, int64_t out, int64_t in,
                Form form) {
  const bool transposed = form == kPackedTransposed;
  Gemm gemm;
  gemm.b_type = stored.dtype;
  gemm.b_format = stored.format;
  gemm.layout = stored.layout;
  gemm.n = transposed ? in : out;
  gemm.k = transposed ? out : in;
  gemm.expansion = expansion_of(arithmetic, stored, transposed);
  if (gemm.expansion == Expansion::none) return gemm;
  gemm.stored = stored;
  gemm.layout = arithmetic == kArithmeticBf16 ? PanelLayout::pairs : PanelLayout::elements;
  return gemm;
}

WeightOperand::WeightOperand(const CompileInfo& info, size_t input, Form form, bool packs,
                             ScratchLayout& layout)
    : input_(input), kept_(input < info.keeps_forms.size() && info.keeps_forms[input]),
      out_(info.input(input).numbers().dim(0)), in_(info.input(input).numbers().dim(1)),
      stored_(stored_form(info, input, form)),
      product_(product_of(info.arithmetic, stored_, out_, in_, form)) {
  expect_lanes("linear", info.input(input));
  if (!kept_ && packs) scratch_ = layout.add(stored_.bytes(out_, in_));
}

WeightOperand::WeightOperand(const CompileInfo& info, size_t input, Form form, int64_t rows,
                             ScratchLayout& layout)
    : WeightOperand(info, input, form, rows, WeightBlocks{info.input(input).numbers().dim(0)},
                    layout) {}

WeightOperand::WeightOperand(const CompileInfo& info, size_t input, Form form, int64_t rows,
                             const WeightBlocks& blocks, ScratchLayout& layout)
    : WeightOperand(info, input, form, blocks.packs_itself, layout) {
  Gemm gemm = product_;
  gemm.m = rows;
  if (form == kPackedTransposed) gemm.k = std::min(gemm.k, blocks.most);
  rounded_ = layout.add(rounded_bytes(gemm));
  expanded_ = layout.add(expanded_bytes(gemm));
}

FormSet WeightOperand::wants() const {
  return kept_ ? kept_form(stored_) : kPlain;
}

int64_t WeightOperand::panel_bytes() const {
  return kPanel * stored_.line_bytes(stored_.transposed ? out_ : in_);
}

const std::byte* WeightOperand::panels(const KernelCall& call) const {
  const Operand& operand = call.inputs[input_];
  if (kept_) {
    const std::byte* made =
        kept_form(stored_) == kPacked ? operand.packed : operand.packed_transposed;
    if (made == nullptr) fail(Code::internal, "[linear] a kept weight has no packed form");
    return made;
  }
  pack(stored_, operand.data, out_, in_, call.scratch + scratch_, call.pool);
  return call.scratch + scratch_;
}

Gemm WeightOperand::gemm(const KernelCall& call) const {
  return product(call, panels(call));
}

Gemm WeightOperand::product(const KernelCall& call, const std::byte* panels) const {
  Gemm gemm = product_;
  gemm.b = panels;
  gemm.rounded = call.scratch + rounded_;
  gemm.expanded = call.scratch + expanded_;
  return gemm;
}

Gemm WeightOperand::chain_part(const Gemm& whole, int64_t begin, int64_t count) const {
  Gemm part = whole;
  const auto* panels = static_cast<const std::byte*>(whole.b);
  part.k = count;
  if (whole.expansion == Expansion::turned) {
    part.b = panels + begin / kPanel * panel_bytes();
  } else {
    part.b = panels + kPanel * line_bytes(whole, begin);
    part.b_chain = out_;
  }
  return part;
}

Head::Head(const CompileInfo& info, ScratchLayout& layout)
    : Head(info, info.input(0).shape.dim(0), WeightBlocks{info.input(1).numbers().dim(0)}, layout) {
}

Head::Head(const CompileInfo& info, int64_t rows, const WeightBlocks& blocks, ScratchLayout& layout)
    : weight_(info, 1, kPacked, rows, blocks, layout), capacity_(info.input(0).shape.dim(0)),
      softcap_(static_cast<float>(info.node.attributes.number("softcap"))) {
  if (info.node.attributes.flag("has_bias")) bias_ = static_cast<int>(next_input_++);
  if (info.node.attributes.flag("has_scale")) scale_ = static_cast<int>(next_input_++);
}

const float* Head::scale(const KernelCall& call) const {
  return scale_ < 0 ? nullptr : call.inputs[scale_].in<float>();
}

void Head::logits(const KernelCall& call, const std::byte* panels, const float* x, int64_t rows,
                  int64_t begin, int64_t end, float* to, int64_t to_stride) const {
  block_logits(call, panels + begin / kPanel * panel_bytes(), x, rows, begin, end, to, to_stride);
}

void Head::block_logits(const KernelCall& call, const std::byte* block, const float* x,
                        int64_t rows, int64_t begin, int64_t end, float* to,
                        int64_t to_stride) const {
  Gemm gemm = weight_.product(call, block);
  gemm.a = x;
  gemm.a_stride = in();
  gemm.c = to;
  gemm.c_stride = to_stride;
  gemm.m = rows;
  gemm.n = end - begin;
  if (bias_ >= 0) gemm.bias = call.inputs[bias_].in<float>() + begin;
  if (scale_ >= 0) gemm.scale = call.inputs[scale_].in<float>() + begin;
  gemm_parallel(gemm, call.pool, call.pause);
  if (!(softcap_ > 0)) return;
  const int64_t together =
      call.pause == nullptr ? rows : std::min<int64_t>(rows, call.pool.threads());
  for (int64_t begin_row = 0; begin_row < rows; begin_row += together) {
    if (call.pause != nullptr) call.pause->look();
    const int64_t height = std::min(together, rows - begin_row);
    split(call.pool, height, grain_of(16 * gemm.n), [&](int64_t first, int64_t last) {
      for (int64_t row = begin_row + first; row < begin_row + last; ++row)
        dllm::cpu::rows().scores(1.0f, softcap_, gemm.n, to + row * to_stride);
    });
  }
}

int64_t rows_in_use(const KernelCall& call, int input, int64_t capacity) {
  if (input < 0) return capacity;
  return std::clamp<int64_t>(*call.inputs[input].in<int32_t>(), 0, capacity);
}

int64_t vocab_block(int64_t rows, int64_t vocab) {
  constexpr int64_t kFloats = int64_t{1} << 22;
  constexpr int64_t kStep = 512;
  const int64_t wanted =
      std::clamp<int64_t>(kFloats / std::max<int64_t>(rows, 1), kStep, 32 * kStep);
  return std::min(wanted / kStep * kStep, (vocab + kStep - 1) / kStep * kStep);
}

} // namespace dllm::cpu
