#include "graph/ops/head_rows.h"

namespace dllm::graph::ops {

HeadOperands head_operands(const Attributes& attributes, OperandOrder& order) {
  HeadOperands at{};
  at.bias = order.take(attributes.flag("has_bias"));
  at.scale = order.take(attributes.flag("has_scale"));
  at.softcap = attributes.number("softcap");
  return at;
}

void expect_row_values(const OpCall& call, int index, const char* what, DType dtype,
                       const Shape& shape) {
  if (index < 0) return;
  expect_dtype(call, static_cast<size_t>(index), what, {dtype});
  expect_shape(call, static_cast<size_t>(index), what, shape);
}

void expect_head(const OpCall& call, const HeadOperands& at) {
  expect_dtype(call, 0, "x", {DType::f32});
  expect_rank(call, 0, "x", 2);
  const Shape weight = expect_weight(call, 1, 2, at.scale);
  if (weight.dim(1) != call.inputs[0].shape.dim(1) || weight.dim(0) < 1) {
    fail_op(call, types_text(call.inputs.first(2)) + " do not fit");
  }
  const Shape row{weight.dim(0)};
  expect_row_values(call, at.bias, "bias", DType::f32, row);
  if (!(at.softcap >= 0)) fail_op(call, fmt::format("softcap {} is negative", at.softcap));
}

Value head_logits(const HeadOperands& at, std::span<const Value> inputs) {
  const auto given = [&](int index) {
    return index >= 0 ? inputs[static_cast<size_t>(index)] : Value{};
  };
  const Value logits = dot(inputs[0], transpose(widen_weight(inputs[1], given(at.scale)), {1, 0}));
  return softcap(at.bias >= 0 ? add(logits, given(at.bias)) : logits,
                 static_cast<float>(at.softcap));
}

Value rows_in_use(Graph& graph, int64_t rows, Value count) {
  const Value row = iota(graph, Shape{rows}, DType::i32, 0);
  return count.defined() ? less(row, count) : equal(row, row);
}

Value log_sum_exp(Value logits) {
  const Value top = max(logits, {1}, true);
  const Value total = sum(exp(subtract(logits, top)), {1});
  return add(reshape(top, total.shape()), log(total));
}

} // namespace dllm::graph::ops
