#pragma once
// Products of weights in blocks of codes, and their gradients, as cases for lowered programs.

#include "unit/graph/case_builder.h"
#include "unit/pjrt/lower/lower_tools.h"

#include <algorithm>
#include <cmath>

namespace dllm::pjrt {

inline std::vector<const WeightFormat*> block_formats() {
  std::vector<const WeightFormat*> made;
  std::ranges::copy_if(weight_formats(), std::back_inserter(made), &WeightFormat::is_blocks);
  return made;
}

// Rows of numbers of both signs and different sizes, in codes. Some rows need denormal f16 scales.
inline Tensor coded(const WeightFormat& format, const Shape& shape) {
  const int64_t k = shape.dim(-1), rows = shape.count() / k;
  std::vector<float> numbers(static_cast<size_t>(shape.count()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto row = static_cast<int>(i / static_cast<size_t>(k));
    numbers[i] = std::ldexp(std::sin(static_cast<float>(i * i % 977) + 0.5f), -2 * (row % 9));
  }
  Tensor made(DType::u8, stored_shape(format, shape));
  made.set_format(&format);
  quantize_matrix(format, numbers.data(), rows, k, made.mutable_bytes(), nullptr);
  return made;
}

// One program with a product of every kind and the gradients of x, at two blocks in a row.
inline graph::test::OpCase code_case(const WeightFormat& format) {
  using graph::Value;
  graph::test::CaseBuilder b("linear", format.name);
  const int64_t k = 2 * format.block;
  const Value x = b.f({3, 5, k}), rows = b.f({15, k}), bias = b.f({9});
  const Value weight = b.given(coded(format, {9, k}));
  const Value experts = b.given(coded(format, {4, 6, k})), chosen = b.i({15, 2}, -1, 5);
  const Value ids = b.i({2, 7}, -2, 11), targets = b.i({15}, -1, 10);
  graph::TokenStatisticsInputs in;
  in.x = rows;
  in.weight = weight;
  in.temperature = b.fixed({15}, 0, 0); // the draw is the best token
  in.uniform = b.fixed({15}, 0, 1);
  const std::vector<Value> outputs{linear(x, weight, bias), expert_linear(rows, chosen, experts),
                                   linear_cross_entropy(rows, weight, bias, {}, targets, {}),
                                   take(weight, ids), token_statistics(in, 1).log_sum_exp};
  auto made = b.done(outputs, 3);
  made.wrt.resize(2); // x and rows
  add_gradients(*made.graph, made.wrt, made.grad_outputs);
  return made;
}

} // namespace dllm::pjrt
