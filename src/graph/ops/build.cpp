// Implements the checks and building blocks of operations.

#include "graph/ops/build.h"

#include "base/error.h"
#include "base/word_list.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dllm::graph::ops {

std::vector<Value> apply_all(const char* op, const std::vector<Value>& inputs,
                             Attributes attributes) {
  const OpDef& def = find_op(op);
  if (inputs.empty() || !inputs[0].defined())
    fail(Code::invalid_argument, "[{}] operand 0 is missing", op);
  return inputs[0].graph->add(def, inputs, std::move(attributes));
}

Value apply(const char* op, const std::vector<Value>& inputs, Attributes attributes) {
  return apply_all(op, inputs, std::move(attributes))[0];
}

void expect_inputs(const OpCall& call, size_t count) {
  if (call.inputs.size() == count) return;
  fail_op(call, fmt::format("takes {} operands, got {}", count, call.inputs.size()));
}

void expect_dtype(const OpCall& call, size_t index, const char* what,
                  std::initializer_list<DType> allowed) {
  const ValueType& given = call.inputs[index];
  if (std::find(allowed.begin(), allowed.end(), given.dtype) != allowed.end()) return;
  std::string names;
  for (DType dtype : allowed)
    names += (names.empty() ? "" : " or ") + std::string(dtype_name(dtype));
  fail_op(call, fmt::format("{} is {}, expected {}", what, given.text(), names));
}

void expect_rank(const OpCall& call, size_t index, const char* what, int64_t rank) {
  if (call.inputs[index].shape.rank() == rank) return;
  fail_op(call, fmt::format("{} is {}, expected {} axes", what, call.inputs[index].text(), rank));
}

void expect_shape(const OpCall& call, size_t index, const char* what, const Shape& wanted) {
  if (call.inputs[index].shape == wanted) return;
  fail_op(call,
          fmt::format("{} is {}, expected {}", what, call.inputs[index].text(), wanted.text()));
}

Shape expect_weight(const OpCall& call, size_t index, int64_t rank, int scale) {
  const ValueType& weight = call.inputs[index];
  if (weight.format == nullptr)
    expect_dtype(call, index, "weight", {DType::f32, DType::bf16, DType::i8});
  expect_rank(call, index, "weight", rank);
  if ((scale >= 0) != (weight.dtype == DType::i8)) {
    fail_op(call, fmt::format("weight {} {} a scale", weight.text(),
                              scale >= 0 ? "cannot have" : "needs"));
  }
  if (scale >= 0) {
    expect_dtype(call, static_cast<size_t>(scale), "scale", {DType::f32});
    expect_shape(call, static_cast<size_t>(scale), "scale", weight.shape.without(-1));
  }
  return weight.numbers();
}

std::string types_text(std::span<const ValueType> types) {
  std::vector<std::string> texts;
  for (const ValueType& type : types) texts.push_back(type.text());
  return word_list(texts, "and");
}

int64_t normal_axis(const char* op, const Shape& shape, int64_t axis) {
  const int64_t index = axis < 0 ? axis + shape.rank() : axis;
  if (index < 0 || index >= shape.rank()) {
    fail(Code::invalid_argument, "[{}] shape {} has no axis {}", op, shape.text(), axis);
  }
  return index;
}

Shape broadcast_shape(const char* op, const ValueType& x, const ValueType& y) {
  const int64_t rank = std::max(x.shape.rank(), y.shape.rank());
  std::vector<int64_t> dims(static_cast<size_t>(rank));
  for (int64_t i = 1; i <= rank; ++i) {
    const int64_t a = i <= x.shape.rank() ? x.shape.dim(-i) : 1;
    const int64_t b = i <= y.shape.rank() ? y.shape.dim(-i) : 1;
    if (a != b && a != 1 && b != 1) {
      fail(Code::invalid_argument, "[{}] {} and {} do not broadcast", op, x.text(), y.text());
    }
    dims[static_cast<size_t>(rank - i)] = a == 1 ? b : a;
  }
  return Shape(std::move(dims));
}

Value full_like(Value x, double value) {
  Tensor wide = Tensor::scalar<double>(value);
  return broadcast(constant(*x.graph, wide.to(x.dtype())), x.shape());
}

Value zeros_of(Graph& graph, const ValueType& type) {
  return broadcast(constant(graph, Tensor(type.dtype, Shape{})), type.shape);
}

Value sum_to(Value g, const Shape& shape) {
  if (g.shape() == shape) return g;
  std::vector<int64_t> axes;
  const int64_t extra = g.rank() - shape.rank();
  for (int64_t i = 0; i < g.rank(); ++i) {
    if (i < extra || (shape.dim(i - extra) == 1 && g.dim(i) != 1)) axes.push_back(i);
  }
  if (axes.empty()) return reshape(g, shape);
  return reshape(convert(sum(convert(g, DType::f32), axes), g.dtype()), shape);
}

Value as_rows(Value x) {
  const int64_t n = x.dim(-1);
  int64_t rows = 1;
  for (int64_t i = 0; i + 1 < x.rank(); ++i) rows *= x.dim(i);
  return reshape(x, Shape{rows, n});
}

Value swap_last(Value x) {
  std::vector<int64_t> permutation(static_cast<size_t>(x.rank()));
  std::iota(permutation.begin(), permutation.end(), int64_t{0});
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return transpose(x, permutation);
}

Value scatter_along_last(Value g, Value indices, const Shape& shape) {
  Graph& graph = *g.graph;
  const int64_t n = shape.dim(-1);
  if (shape.count() > std::numeric_limits<int32_t>::max()) {
    fail_with_hint("take smaller batches", Code::unimplemented,
                   "[scatter_add] the gradient of {} elements chosen along rows of {} has {} "
                   "places, more than {} cannot be numbered",
                   g.shape().text(), n, shape.count(), std::numeric_limits<int32_t>::max());
  }
  g = convert(g, DType::f32);
  const Value flat = as_rows(indices); // (rows, k)
  const Value row = iota(graph, flat.shape(), DType::i32, 0);
  const Value at = add(flat, multiply(row, scalar_i32(graph, static_cast<int32_t>(n))));
  const Value zeros = zeros_of(graph, {Shape{shape.count()}, g.dtype(), {}});
  const int64_t count = g.shape().count();
  return reshape(scatter_add(zeros, reshape(at, Shape{count}), reshape(g, Shape{count})), shape);
}

void expect_trainable(const char* op, Value weight) {
  if (weight.dtype() != DType::i8 && weight.type().format == nullptr) return;
  fail_with_hint("train an f32 master and keep the base frozen", Code::unimplemented,
                 "[{}] weight {} has no gradient", op, weight.type().text());
}

Value widen_weight(Value weight, Value scale, const WeightFormat* format) {
  if (format == nullptr) format = weight.type().format;
  if (format != nullptr) return widen_blocks(*format, weight);
  Value wide = weight.dtype() == DType::f32 ? weight : convert(weight, DType::f32);
  if (!scale.defined()) return wide;
  return multiply(wide, reshape(scale, Shape{scale.dim(0), 1}));
}

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
