// Products with one matrix per row; a number that names no expert gives zeros.

#include "unit/graph/cases/cases.h"

namespace dllm::graph::test {

void add_experts(Cases& c) {
  constexpr int64_t kExperts = 4;
  // Expert 1 has no row, 7 and -1 do not exist, row 2 chooses one expert twice.
  const auto choices = [](B& b) { return b.ints({5, 2}, {0, 2, 3, -1, 2, 2, 7, 0, 3, 2}); };
  const auto weight_of = [](B& b, DType dtype, int64_t out, int64_t in) {
    return dtype == DType::f32    ? b.f({kExperts, out, in})
           : dtype == DType::bf16 ? b.bf16({kExperts, out, in})
                                  : b.i8({kExperts, out, in});
  };
  const auto scale_of = [](B& b, DType dtype, int64_t out) {
    return dtype == DType::i8 ? b.fixed({kExperts, out}, 0, 0.02) : Value{};
  };
  for (DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    const std::string label = dtype_name(dtype);
    c.add("expert_linear", label, [&](B& b) {
      const Value x = b.f({5, 7}), experts = choices(b), weight = weight_of(b, dtype, 19, 7);
      return Values{expert_linear(x, experts, weight, scale_of(b, dtype, 19))};
    });
    c.add("expert_linear_input_grad", label, [&](B& b) {
      Values inputs{b.f({5, 2, 5}), choices(b), weight_of(b, dtype, 5, 17)};
      if (dtype == DType::i8) inputs.push_back(scale_of(b, dtype, 5));
      return Cases::raw("expert_linear_input_grad", inputs, {{"has_scale", inputs.size() > 3}});
    });
  }
  c.add("expert_linear", "one choice of one expert", [&](B& b) {
    const Value x = b.f({3, 17}), weight = b.f({1, 5, 17});
    return Values{expert_linear(x, b.ints({3, 1}, {0, 0, 0}), weight)};
  });
  c.add("expert_linear_weight_grad", "", [&](B& b) {
    const Value dy = b.f({5, 2, 7}), x = b.f({5, 19});
    return Cases::raw("expert_linear_weight_grad", {dy, choices(b), x}, {{"count", kExperts}});
  });
}

// Rows of matrix 1, of none, and two of matrix 0.
void add_rows_of_matrices(Cases& c) {
  for (const bool is_bf16 : {false, true}) {
    c.add("linear_by_row", is_bf16 ? "bf16" : "f32", [&](B& b) {
      const Value x = b.f({6, 7}), choice = b.ints({6}, {1, 0, -1, 0, 3, 2});
      Values weights;
      for (int i = 0; i < 3; ++i) weights.push_back(is_bf16 ? b.bf16({19, 7}) : b.f({19, 7}));
      return Values{linear_by_row(x, choice, weights)};
    });
  }
  c.add("linear_by_row", "one matrix", [&](B& b) {
    const Value x = b.f({3, 17}), choice = b.ints({3}, {0, -1, 0});
    return Values{linear_by_row(x, choice, {b.f({5, 17})})};
  });
}

} // namespace dllm::graph::test
