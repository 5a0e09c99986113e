// The table of fused operations that are lowered, linear, and the bodies of loops.
#include "pjrt/lower/lower.h"

#include "base/error.h"
#include "graph/op.h"
#include "graph/ops/build.h"
#include "graph/passes.h"

#include <string_view>

namespace dllm::pjrt {

namespace {

struct Lowering {
  std::string_view op;
  graph::Definition definition;
};

constexpr Lowering kLowerings[] = {
    {"attention", lower_attention},
    {"attention_grad", lower_attention_grad},
    {"expert_linear", lower_expert_linear},
    {"expert_linear_input_grad", lower_expert_linear_input_grad},
    {"expert_linear_weight_grad", lower_expert_linear_weight_grad},
    {"linear", lower_linear},
    {"linear_cross_entropy", lower_linear_cross_entropy},
    {"linear_cross_entropy_grad", lower_linear_cross_entropy_grad},
    {"linear_input_grad", lower_linear_input_grad},
    {"token_statistics", lower_token_statistics},
};

graph::Definition definition_of(const graph::Graph& graph, const graph::Node& node) {
  const std::string_view name = node.op->name;
  if (name == "take" && graph.type(node.inputs[0]).format != nullptr) return lower_take_blocks;
  for (const Lowering& lowering : kLowerings) {
    if (lowering.op == name) return lowering.definition;
  }
  return node.op->decompose;
}

} // namespace

std::shared_ptr<const graph::Graph> lower(const graph::Graph& source) {
  return graph::simplify(*graph::decompose(source, definition_of));
}

// linear and its input gradient are one product of flat rows each. A narrow weight, or one of codes
// in blocks, is widened right at the product, and its scale multiplies the smaller side. So no wide
// matrix is stored beyond the product.
// linear_weight_grad is one product by its definition.

using graph::Value;
using namespace graph::ops;

Results lower_linear(graph::Graph&, const graph::Node& node, Operands inputs) {
  OperandOrder order(2);
  const int bias = order.take(node.attributes.flag("has_bias"));
  const int scale = order.take(node.attributes.flag("has_scale"));
  const Value x = inputs[0], weight = widen_weight(inputs[1], {});
  Value y = dot(as_rows(x), transpose(weight, {1, 0}));
  if (scale >= 0) y = multiply(y, inputs[static_cast<size_t>(scale)]);
  if (bias >= 0) y = add(y, inputs[static_cast<size_t>(bias)]);
  return {reshape(y, x.shape().with_dim(-1, weight.dim(0)))};
}

Results lower_linear_input_grad(graph::Graph&, const graph::Node& node, Operands inputs) {
  const Value weight = widen_weight(inputs[1], {});
  Value dy = as_rows(inputs[0]);
  if (node.attributes.flag("has_scale")) dy = multiply(dy, inputs[2]);
  return {reshape(dot(dy, weight), inputs[0].shape().with_dim(-1, weight.dim(1)))};
}

// Reads the codes of the rows and widens them.
Results lower_take_blocks(graph::Graph&, const graph::Node&, Operands inputs) {
  const WeightFormat& format = *inputs[0].type().format;
  const int64_t rows = inputs[0].dim(0), bytes = inputs[0].dim(1);
  // The array has no format in this shape, and its rows are read as they are.
  const Value table =
      reshape(inputs[0], Shape{rows, bytes / format.block_bytes, format.block_bytes});
  std::vector<int64_t> dims = inputs[1].shape().dims();
  dims.push_back(bytes);
  return {widen_blocks(format, reshape(take(table, inputs[1]), Shape(std::move(dims))))};
}

graph::AxisSet axes_of(std::span<const Value> values) {
  graph::AxisSet axes;
  for (Value value : values) axes = axes.with(value.type().axes);
  return axes;
}

LoopBody::LoopBody(const std::string& name, graph::AxisSet axes)
    : body_(std::make_shared<graph::Graph>(name)), axes_(axes) {}

Value LoopBody::declare(graph::ValueType type) {
  type.axes = axes_;
  return body_->input("x" + std::to_string(body_->inputs().size()), type);
}

Value LoopBody::state(Value start) {
  if (!elements_.empty() || !outside_.empty())
    fail(Code::internal, "loop {} declares a state late", body_->name());
  state_.push_back(start);
  return declare(start.type());
}

Value LoopBody::outside(Value value) {
  if (!value.defined()) return {};
  outside_.push_back(value);
  return declare(value.type());
}

void LoopBody::give(const std::vector<Value>& results) {
  for (Value result : results)
    body_->output("y" + std::to_string(body_->outputs().size()), vary(result, axes_));
}

std::vector<Value> LoopBody::run_while(Value first_next, const std::vector<Value>& next,
                                       Value (*goes_on)(Value first, Value last)) {
  give({first_next});
  give(next);
  auto cond = std::make_shared<graph::Graph>(body_->name() + " goes on");
  for (const graph::GraphInput& input : body_->inputs())
    cond->input(input.name, body_->type(input.value));
  cond->output("goes_on", goes_on(cond->value(cond->inputs().front().value),
                                  cond->value(cond->inputs().back().value)));
  auto made = graph::while_loop(cond, body_, state_, outside_);
  made.erase(made.begin());
  return made;
}

Value ScanBody::element(Value stacked) {
  if (!outside_.empty()) fail(Code::internal, "scan {} declares an element late", body_->name());
  elements_.push_back(stacked);
  graph::ValueType one = stacked.type();
  one.shape = one.shape.without(0);
  return declare(one);
}

graph::ScanResult ScanBody::run(const std::vector<Value>& next, const std::vector<Value>& results,
                                int64_t count) {
  give(next);
  give(results);
  return graph::scan(body_, state_, elements_, outside_, count);
}

CountedLoop::CountedLoop(const std::string& name, graph::AxisSet axes, Value limit)
    : LoopBody(name, axes), limit_(limit), step_(state(graph::scalar_i32(*limit.graph, 0))) {}

std::vector<Value> CountedLoop::run(const std::vector<Value>& next) {
  outside(limit_); // declared as the last operand, which run_while compares
  const Value after = add(step_, graph::scalar_i32(*body_, 1));
  return run_while(after, next, [](Value step, Value limit) { return less(step, limit); });
}

OnDemand::OnDemand(const std::string& name, graph::AxisSet axes, Value demand)
    : LoopBody(name, axes), demand_(state(demand)) {}

std::vector<Value> OnDemand::run(const std::vector<Value>& next) {
  const Value done = zeros(*body_, demand_.shape());
  return run_while(done, next, [](Value demand, Value) {
    return greater(max(demand, {0}), graph::scalar(*demand.graph, 0));
  });
}

Value zeros(graph::Graph& graph, Shape shape) {
  return graph::full(graph, std::move(shape), 0);
}

Value column(Value row) {
  return reshape(row, Shape{row.dim(0), 1});
}

Value times(Value x, int64_t factor) {
  return multiply(x, graph::scalar_i32(*x.graph, static_cast<int32_t>(factor)));
}

namespace {

std::vector<Value> begins(Value x, Value begin) {
  std::vector<Value> all(static_cast<size_t>(x.rank()), graph::scalar_i32(*x.graph, 0));
  all[0] = begin;
  return all;
}

} // namespace

Value rows_at(Value x, Value begin, int64_t count) {
  return dynamic_slice(x, begins(x, begin), x.shape().with_dim(0, count).dims());
}

Value put_rows(Value x, Value rows, Value begin) {
  return dynamic_update_slice(x, rows, begins(x, begin));
}

Value pad_rows(Value x, int64_t rows, double fill) {
  if (x.dim(0) == rows) return x;
  std::vector<int64_t> low(static_cast<size_t>(x.rank()), 0), high = low;
  high[0] = rows - x.dim(0);
  const Tensor number = Tensor::scalar<double>(fill);
  return pad(x, low, high, constant(*x.graph, number.to(x.dtype())));
}

} // namespace dllm::pjrt
