// Expert products in tiles of pairs: lowered against the kernels of the CPU engine.

#include "unit/graph/case_builder.h"
#include "unit/pjrt/lower/lower_tools.h"

namespace dllm::pjrt {
namespace {

using graph::Value;
using graph::test::CaseBuilder;

struct Sizes {
  int64_t rows, choices, experts, out, in;
  int32_t low, high; // numbers of experts that are chosen
  DType weight = DType::f32;
};

void check(const Sizes& s, const std::string& label) {
  CaseBuilder b("expert_linear", label);
  const Shape matrices{s.experts, s.out, s.in};
  const Value x = b.f({s.rows, s.in}), numbers = b.i({s.rows, s.choices}, s.low, s.high);
  const Value weight = s.weight == DType::f32    ? b.f(matrices)
                       : s.weight == DType::bf16 ? b.bf16(matrices)
                                                 : b.i8(matrices);
  const Value scale = s.weight == DType::i8 ? b.fixed({s.experts, s.out}, 0, 0.02) : Value{};
  auto c = b.done({expert_linear(x, numbers, weight, scale)});
  add_gradients(*c.graph, c.wrt, c.grad_outputs);
  expect_same_lowered(c.graph, c.inputs, 1e-5, label);
}

TEST(LowerExperts, Routings) {
  check({1, 1, 1, 3, 4, 0, 1}, "one row of one expert");
  check({7, 3, 5, 6, 4, 0, 5}, "small groups");
  check({300, 4, 8, 6, 4, 0, 8}, "whole tiles");
  check({300, 4, 8, 6, 4, 2, 3}, "all to one expert");
  check({300, 4, 8, 6, 4, -4, 12}, "some without an expert");
  check({50, 2, 8, 6, 4, 9, 12}, "none with an expert");
  check({5, 8, 64, 6, 4, 0, 64}, "more experts than rows");
}

TEST(LowerExperts, NarrowWeights) {
  check({90, 2, 8, 6, 4, -1, 9, DType::bf16}, "bf16");
  check({90, 2, 8, 6, 4, -1, 9, DType::i8}, "i8");
}

// The stack of matrices is the largest thing there is: no matrix per pair.
TEST(LowerExperts, NoMatrixPerPair) {
  CaseBuilder b("expert_linear", "large");
  const Value x = b.f({512, 64}), numbers = b.i({512, 4}, 0, 16), weight = b.f({16, 64, 64});
  auto c = b.done({expert_linear(x, numbers, weight)});
  add_gradients(*c.graph, c.wrt, c.grad_outputs);
  EXPECT_LE(largest_value(*lower(*c.graph)), 4 * 512 * 64 * 3);
}

} // namespace
} // namespace dllm::pjrt
