#pragma once
// Shared by the operation files: making nodes by name, checks of operands, undoing a broadcast.

#include "graph/op.h"
#include "graph/ops.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace dllm::graph::ops {

// What the operation files share: making nodes by name, checking operands, undoing a broadcast.

using Types = std::vector<ValueType>;
using Bodies = std::vector<std::shared_ptr<const Graph>>;

// Appends a node to the graph of its first operand.
std::vector<Value> apply_all(const char* op, const std::vector<Value>& inputs,
                             Attributes attributes = {});
Value apply(const char* op, const std::vector<Value>& inputs, Attributes attributes = {});

// --- checks of shape rules; all fail through fail_op ---
void expect_inputs(const OpCall& call, size_t count);
void expect_dtype(const OpCall& call, size_t index, const char* what,
                  std::initializer_list<DType> allowed);
void expect_rank(const OpCall& call, size_t index, const char* what, int64_t rank);
void expect_shape(const OpCall& call, size_t index, const char* what, const Shape& wanted);
// A weight (.., out, in) of `rank` axes in any format: f32, bf16, i8 with its scale f32(.., out), blocks. scale: index
// of the operand or -1. Gives the shape of its numbers.
Shape expect_weight(const OpCall& call, size_t index, int64_t rank, int scale);
// "f32(2, 3) and f32(4)"
std::string types_text(std::span<const ValueType> types);
// Optional operands follow in a fixed order; take(flag) returns the next index or -1.
class OperandOrder {
public:
  explicit OperandOrder(int next = 0) : next_(next) {}
  int take(bool present = true) { return present ? next_++ : -1; }
  int count() const { return next_; }

private:
  int next_;
};

// --- building ---
// Axis -1 is the last one; fails naming the operation and the shape.
int64_t normal_axis(const char* op, const Shape& shape, int64_t axis);
Shape broadcast_shape(const char* op, const ValueType& x, const ValueType& y);
Value full_like(Value x, double value);              // same shape and type
Value zeros_of(Graph& graph, const ValueType& type); // equal on all ranks
Value sum_to(Value g, const Shape& shape);           // undoes a broadcast from `shape`
Value as_rows(Value x);                              // (.., n) -> (rows, n)
Value swap_last(Value x);                            // (.., m, n) -> (.., n, m)
// Adds g at `indices` of the last axis of zeros of `shape`; leading axes run along.
Value scatter_along_last(Value g, Value indices, const Shape& shape);
// f32 of an f32, bf16 or i8 matrix (out, in); scale f32(out). A weight in blocks has no definition in
// plain operations: unimplemented.
Value widen_weight(Value weight, Value scale);
// Fails when a weight that cannot be trained (i8, blocks) is to have a gradient.
void expect_trainable(const char* op, Value weight);

// What the operations on rows of logits share (linear_cross_entropy, token_statistics): x (rows,
// in), weight (vocab, in), optional bias and scale, and a run-time number of rows in use.

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
