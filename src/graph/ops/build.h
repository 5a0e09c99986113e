#pragma once
// Appends nodes by name, checks operands, and undoes broadcasts, for the files that define
// operations.

#include "graph/op.h"
#include "graph/ops.h"

#include <initializer_list>
#include <string>
#include <vector>

namespace dllm::graph::ops {

using Types = std::vector<ValueType>;
using Bodies = std::vector<std::shared_ptr<const Graph>>;

// Append a node to the graph of its first operand, and return its results or its only result.
std::vector<Value> apply_all(const char* op, const std::vector<Value>& inputs,
                             Attributes attributes = {});
Value apply(const char* op, const std::vector<Value>& inputs, Attributes attributes = {});

// --- checks of shape rules; all fail through fail_op ---
void expect_inputs(const OpCall& call, size_t count);
void expect_dtype(const OpCall& call, size_t index, const char* what,
                  std::initializer_list<DType> allowed);
void expect_rank(const OpCall& call, size_t index, const char* what, int64_t rank);
void expect_shape(const OpCall& call, size_t index, const char* what, const Shape& wanted);
// Checks a weight (.., out, in) of `rank` axes in any format: f32, bf16, i8 with its scale f32(..,
// out), or blocks. Returns the shape of its numbers. scale: index of the operand, or -1 without
// one.
Shape expect_weight(const OpCall& call, size_t index, int64_t rank, int scale);
// Returns the types as text: "f32(2, 3) and f32(4)".
std::string types_text(std::span<const ValueType> types);
// Numbers the optional operands, which have a fixed order. take() returns the next index, or -1 for
// an operand that is not present.
class OperandOrder {
public:
  explicit OperandOrder(int next = 0) : next_(next) {}
  int take(bool present = true) { return present ? next_++ : -1; }
  int count() const { return next_; }

private:
  int next_;
};

// --- building ---
// Returns the axis from 0; -1 is the last axis. Fails, naming the operation and the shape.
int64_t normal_axis(const char* op, const Shape& shape, int64_t axis);
Shape broadcast_shape(const char* op, const ValueType& x, const ValueType& y);
Value full_like(Value x, double value);              // same shape and type
Value zeros_of(Graph& graph, const ValueType& type); // equal on all ranks
Value sum_to(Value g, const Shape& shape);           // undoes a broadcast from `shape`
Value as_rows(Value x);                              // (.., n) -> (rows, n)
Value swap_last(Value x);                            // (.., m, n) -> (.., n, m)
// Returns zeros of `shape` to which g is added at `indices` of the last axis. The leading axes of
// g, indices and shape are equal.
Value scatter_along_last(Value g, Value indices, const Shape& shape);
// Converts a weight (.., out, in) in any format to f32. Only a matrix may have a scale f32(out).
// format: the format of blocks that were cut from a weight and lost its type; null: the weight's.
Value widen_weight(Value weight, Value scale, const WeightFormat* format = nullptr);
// Converts the bytes of rows in blocks, u8(.., bytes of a row), to numbers f32(.., k).
Value widen_blocks(const WeightFormat& format, Value bytes);
// Fails if the weight cannot have a gradient (i8, blocks).
void expect_trainable(const char* op, Value weight);

// The operands of operations on rows of logits (linear_cross_entropy, token_statistics). Operand 0
// is x (rows, in), operand 1 is weight (vocab, in).
struct HeadOperands {
  int bias, scale; // index of the operand; -1 without one
  double softcap;  // 0: no cap
};

HeadOperands head_operands(const Attributes& attributes, OperandOrder& order);
void expect_head(const OpCall& call, const HeadOperands& at);
// Checks the type and shape of an operand, unless index is -1.
void expect_row_values(const OpCall& call, int index, const char* what, DType dtype,
                       const Shape& shape);

// Parts of decompositions.
// Returns the logits (rows, vocab), after the softcap.
Value head_logits(const HeadOperands& at, std::span<const Value> inputs);
Value rows_in_use(Graph& graph, int64_t rows, Value count); // u8(rows); count may be undefined
Value log_sum_exp(Value logits);                            // f32(rows)

} // namespace dllm::graph::ops
