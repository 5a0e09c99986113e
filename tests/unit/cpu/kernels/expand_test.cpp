// Expanded panels: products with weights in blocks and in int8 have the bits of products with f32
// weights of the same numbers, forward and backward, in f32 and in bf16.

#include "cpu/gemm/expand.h"
#include "tensor/weight_format.h"
#include "unit/cpu/kernels/run_kernel.h"
#include "unit/cpu/kernels/simd_targets.h"
#include "unit/cpu/run_graph.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace dllm::cpu {
namespace {

bool expands(const WeightFormat& format) {
  return format.is_blocks() || format.element == DType::i8;
}

// A weight in a format, and the numbers that its elements stand for (int8: without scales).
struct Expandable {
  Tensor stored, numbers;

  Expandable(const WeightFormat& format, const Shape& shape)
      : stored(format.is_blocks() ? DType::u8 : format.element, stored_shape(format, shape)),
        numbers(random_tensor(shape, 3)) {
    if (format.is_blocks()) stored.set_format(&format);
    const int64_t k = shape.dim(-1), bytes = format.row_bytes(k);
    const float one = 1;
    for (int64_t r = 0; r < shape.count() / k; ++r) {
      float scale = 1;
      float* row = numbers.mutable_as<float>().data() + r * k;
      format.quantize(row, k, stored.mutable_bytes() + r * bytes, &scale);
      format.dequantize(stored.bytes() + r * bytes, &one, k, row);
    }
  }
};

std::vector<std::byte> packed_in(const PanelForm& form, const Tensor& plain, int64_t n, int64_t k) {
  std::vector<std::byte> made(static_cast<size_t>(form.bytes(n, k)), std::byte{0xAA});
  pack(form, plain.bytes(), n, k, made.data(), nullptr);
  return made;
}

// Compares bits, apart from the sign of zero: a level of 0 may be the product -1 * 0.
template <class Word>
bool same_panels(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  constexpr auto kSign = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  for (size_t i = 0; i + sizeof(Word) <= a.size(); i += sizeof(Word)) {
    Word x, y;
    std::memcpy(&x, &a[i], sizeof x);
    std::memcpy(&y, &b[i], sizeof y);
    if (x != y && (x | y) != kSign) return false;
  }
  return a.size() == b.size();
}

TEST(ExpandedPanels, AreThePanelsOfTheNumbersOnEveryTarget) {
  for (const WeightFormat* format : weight_formats()) {
    if (!expands(*format)) continue;
    for (const int64_t n : {1, 16, 37}) {
      const int64_t k = std::max<int64_t>(format->block, format->block == 1 ? 71 : 96) /
                        format->block * format->block * 3;
      const Expandable w(*format, {n, k});
      for (const Arithmetic arithmetic : {kArithmeticBf16, kArithmeticInt8}) {
        const PanelForm stored =
            panel_form(arithmetic, w.stored.dtype(), w.stored.format(), k, false);
        const std::vector<std::byte> panels = packed_in(stored, w.stored, n, k);
        const PanelSource source{stored, panels.data(), n, k};
        for_each_simd_target([&](const char* target) {
          const std::string where =
              std::string(target) + ' ' + format->name + ' ' + std::to_string(n);
          for (const PanelLayout layout : {PanelLayout::pairs, PanelLayout::elements}) {
            const auto same =
                layout == PanelLayout::pairs ? same_panels<uint16_t> : same_panels<uint32_t>;
            const PanelForm plain{DType::f32, nullptr, layout, false};
            std::vector<std::byte> rows(static_cast<size_t>(plain.bytes(n, k)), std::byte{0x55});
            expand_rows(source, 0, panel_count(n), layout, rows.data(), nullptr);
            EXPECT_TRUE(same(rows, packed_in(plain, w.numbers, n, k))) << where;
            const PanelForm form{DType::f32, nullptr, layout, true};
            std::vector<std::byte> turned(static_cast<size_t>(form.bytes(n, k)), std::byte{0x55});
            const int64_t half = k / 2 / turned_columns(stored) * turned_columns(stored);
            expand_turned(source, 0, half, layout, turned.data(), nullptr);
            expand_turned(source, half, k - half, layout, turned.data() + form.bytes(n, half),
                          nullptr);
            EXPECT_TRUE(same(turned, packed_in(form, w.numbers, n, k))) << where;
          }
        });
      }
    }
  }
}

struct ExpandedOp {
  const char* op;
  bool is_gradient, has_experts;
};
constexpr ExpandedOp kExpandedOps[] = {{"linear", false, false},
                                       {"linear_input_grad", true, false},
                                       {"expert_linear", false, true},
                                       {"expert_linear_input_grad", true, true}};

// Stripes are 4 MB of panels, so the larger weight has several.
TEST(ExpandedProducts, HaveTheBitsOfF32Weights) {
  constexpr int64_t kFew = 7, kChoices = 2, kExperts = 3;
  Tensor chosen(DType::i32, {kFew, kChoices});
  for (int64_t i = 0; i < kFew * kChoices; ++i)
    chosen.mutable_as<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(i * 7 % 4);
  for (const WeightFormat* format : weight_formats()) {
    if (!expands(*format)) continue;
    const std::string_view name = format->name;
    for (const ExpandedOp& op : kExpandedOps) {
      for (const auto& [out, in] : {std::pair<int64_t, int64_t>{37, 256}, {2801, 768}}) {
        const bool is_usual = name == "nf4" || name == "q4_k" || name == "int8";
        if (out > 1000 && (op.has_experts || !is_usual)) continue;
        const int64_t rows = op.has_experts || out > 1000 ? kFew : 131;
        const int64_t wide = op.is_gradient ? out : in, made = op.is_gradient ? in : out;
        const Expandable w(*format, op.has_experts ? Shape{kExperts, out, in} : Shape{out, in});
        const Tensor input = random_tensor(
            op.has_experts && op.is_gradient ? Shape{rows, kChoices, wide} : Shape{rows, wide}, 1);
        const Shape result =
            op.has_experts && !op.is_gradient ? Shape{rows, kChoices, made} : Shape{rows, made};
        const auto run = [&](const Tensor& weight, Arithmetic arithmetic, bool kept) {
          KernelSetup setup{find_kernel(op.op),
                            op.has_experts ? std::vector<Tensor>{input, chosen, weight}
                                           : std::vector<Tensor>{input, weight},
                            {f32_type(result)},
                            {{"has_bias", false}, {"has_scale", false}}};
          setup.arithmetic = arithmetic;
          setup.threads = kept ? 2 : 1;
          setup.keeps_forms.assign(setup.inputs.size(), kept);
          return floats(run_kernel(setup)[0]);
        };
        for (const Arithmetic arithmetic : {kArithmeticF32, kArithmeticBf16}) {
          const std::vector<float> expected = run(w.numbers, arithmetic, false);
          for (const bool kept : {false, true})
            EXPECT_EQ(run(w.stored, arithmetic, kept), expected)
                << format->name << ' ' << op.op << ' ' << arithmetic_name(arithmetic) << ' ' << out
                << (kept ? " kept" : "");
        }
        if (op.is_gradient) {
          EXPECT_EQ(run(w.stored, kArithmeticInt8, true), run(w.numbers, kArithmeticF32, false))
              << format->name << ' ' << op.op;
        }
      }
    }
  }
}

// The operations of the head read parts of the vocabulary.
TEST(ExpandedProducts, HeadsHaveTheBitsOfF32Weights) {
  constexpr int64_t kRows = 5, kIn = 256, kVocab = 1700;
  const Tensor x = random_tensor({kRows, kIn}, 1), ones = random_tensor({kRows}, 2);
  Tensor targets(DType::i32, {kRows});
  for (int64_t i = 0; i < kRows; ++i)
    targets.mutable_as<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(i * 331);
  const graph::Attributes attributes{{"has_bias", false},    {"has_scale", false},
                                     {"has_count", false},   {"softcap", 0.0},
                                     {"want_weight", false}, {"want_bias", false}};
  for (const WeightFormat* format : weight_formats()) {
    if (!expands(*format)) continue;
    const Expandable w(*format, {kVocab, kIn});
    for (const Arithmetic arithmetic : {kArithmeticF32, kArithmeticBf16}) {
      const auto run = [&](const Tensor& weight, bool kept) {
        const auto outputs_of = [&](const char* op, std::vector<Tensor> inputs,
                                    std::vector<graph::ValueType> outputs) {
          KernelSetup setup{find_kernel(op), std::move(inputs), std::move(outputs), attributes};
          setup.arithmetic = arithmetic;
          setup.keeps_forms.assign(setup.inputs.size(), kept);
          return run_kernel(setup);
        };
        const graph::ValueType row = f32_type({kRows}), rows = f32_type({kRows, kIn});
        const auto loss = outputs_of("linear_cross_entropy", {x, weight, targets}, {row, row});
        const auto both = outputs_of("linear_cross_entropy_with_grad", {x, weight, targets, ones},
                                     {row, row, rows});
        const auto grad =
            outputs_of("linear_cross_entropy_grad", {x, weight, targets, loss[1], ones}, {rows});
        std::vector<float> all = floats(loss[0]);
        for (const Tensor& part : {both[0], both[2], grad[0]}) {
          const std::vector<float> more = floats(part);
          all.insert(all.end(), more.begin(), more.end());
        }
        return all;
      };
      const std::vector<float> expected = run(w.numbers, false);
      for (const bool kept : {false, true})
        EXPECT_EQ(run(w.stored, kept), expected)
            << format->name << ' ' << arithmetic_name(arithmetic) << (kept ? " kept" : "");
    }
  }
}

// A frozen weight in blocks or int8 has one packed form, also when gradients go through it.
TEST(ExpandedProducts, KeepOneForm) {
  for (const char* name : {"int8", "nf4", "q8_0", "q4_k"}) {
    const Expandable w(weight_format(name), {64, 256});
    for (const Arithmetic arithmetic : {kArithmeticF32, kArithmeticBf16, kArithmeticInt8}) {
      for (const char* op : {"linear", "linear_input_grad"}) {
        KernelSetup setup{find_kernel(op),
                          {random_tensor({3, std::string(op) == "linear" ? 256 : 64}, 1), w.stored},
                          {f32_type({3, std::string(op) == "linear" ? 64 : 256})},
                          {{"has_bias", false}, {"has_scale", false}}};
        setup.arithmetic = arithmetic;
        setup.keeps_forms = {false, true};
        EXPECT_EQ(KernelRunner(setup).wants(1), FormSet{kPacked}) << name << ' ' << op;
      }
    }
  }
}

} // namespace
} // namespace dllm::cpu
