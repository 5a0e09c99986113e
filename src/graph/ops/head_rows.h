#pragma once
// What the operations on rows of logits share (linear_cross_entropy, token_statistics): x (rows,
// in), weight (vocab, in), optional bias and scale, and a run-time number of rows in use.

#include "graph/ops/build.h"

namespace dllm::graph::ops {

struct HeadOperands {
  int bias, scale; // -1: not there. x and weight are operands 0 and 1
  double softcap;  // 0: none
};

HeadOperands head_operands(const Attributes& attributes, OperandOrder& order);
void expect_head(const OpCall& call, const HeadOperands& at);
// Nothing is expected where index is -1.
void expect_row_values(const OpCall& call, int index, const char* what, DType dtype,
                       const Shape& shape);

// For decompositions.
Value head_logits(const HeadOperands& at, std::span<const Value> inputs); // (rows, vocab), capped
Value rows_in_use(Graph& graph, int64_t rows, Value count); // u8(rows); count may be undefined
Value log_sum_exp(Value logits);                            // f32(rows)

} // namespace dllm::graph::ops
