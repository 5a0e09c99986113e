// linear_cross_entropy: computes -log softmax(x w^T + bias)[target] per row, head and loss in one
// operation, without storing (rows, vocab).

#include "graph/ops/build.h"

#include "base/error.h"

namespace dllm::graph {
namespace {

using namespace ops;

struct CrossEntropyOperands {
  HeadOperands head;
  int targets, count, lse, dnll, size;
};

// The operation whose operands are meant: the loss, its gradient, or both in one operation.
enum class Part { loss, gradient, both };

CrossEntropyOperands cross_entropy_operands(const Attributes& attributes, Part part) {
  OperandOrder order(2);
  CrossEntropyOperands at{};
  at.head = head_operands(attributes, order);
  at.targets = order.take();
  at.count = order.take(attributes.flag("has_count"));
  at.lse = order.take(part == Part::gradient);
  at.dnll = order.take(part != Part::loss);
  at.size = order.count();
  return at;
}

CrossEntropyOperands expect_cross_entropy_operands(const OpCall& call, Part part) {
  const CrossEntropyOperands at = cross_entropy_operands(call.attributes, part);
  expect_inputs(call, static_cast<size_t>(at.size));
  expect_head(call, at.head);
  const Shape rows{call.inputs[0].shape.dim(0)};
  expect_row_values(call, at.targets, "targets", DType::i32, rows);
  expect_row_values(call, at.count, "count", DType::i32, Shape{});
  expect_row_values(call, at.lse, "lse", DType::f32, rows);
  expect_row_values(call, at.dnll, "dnll", DType::f32, rows);
  return at;
}

Types cross_entropy_types(const OpCall& call) {
  expect_cross_entropy_operands(call, Part::loss);
  const ValueType row{Shape{call.inputs[0].shape.dim(0)}, DType::f32, {}};
  return {row, row};
}

Types types_of_gradients(const OpCall& call, const CrossEntropyOperands& at) {
  const ValueType& weight = call.inputs[1];
  Types results{call.inputs[0]};
  if (call.attributes.flag("want_weight")) results.push_back({weight.shape, DType::f32, {}});
  if (call.attributes.flag("want_bias")) {
    if (at.head.bias < 0) fail_op(call, "the head has no bias, which the gradient needs");
    results.push_back({Shape{weight.shape.dim(0)}, DType::f32, {}});
  }
  return results;
}

Types cross_entropy_grad_types(const OpCall& call) {
  return types_of_gradients(call, expect_cross_entropy_operands(call, Part::gradient));
}

Types both_types(const OpCall& call) {
  const CrossEntropyOperands at = expect_cross_entropy_operands(call, Part::both);
  const ValueType row{Shape{call.inputs[0].shape.dim(0)}, DType::f32, {}};
  Types results{row, row};
  for (ValueType& type : types_of_gradients(call, at)) results.push_back(std::move(type));
  return results;
}

bool is_wanted(const VjpCall& call, int operand) {
  return operand >= 0 && call.wanted[static_cast<size_t>(operand)];
}

struct Targets {
  Value counts; // u8(rows): the row has a target and is in use
  Value ids;    // i32(rows), inside the vocabulary
};

Targets targets_of(Graph& graph, const CrossEntropyOperands& at, std::span<const Value> inputs) {
  const Value targets = inputs[static_cast<size_t>(at.targets)];
  const auto vocab = static_cast<double>(inputs[1].dim(0));
  const Value zero = full_like(targets, 0);
  const Value named =
      logical_and(greater_equal(targets, zero), less(targets, full_like(targets, vocab)));
  const Value count = at.count >= 0 ? inputs[static_cast<size_t>(at.count)] : Value{};
  return {logical_and(named, rows_in_use(graph, targets.dim(0), count)),
          clamp(zero, targets, full_like(targets, vocab - 1))};
}

// d logits = (softmax - onehot) dnll + softmax dlse = (softmax - onehot) (dnll + dlse) + onehot
// dlse. linear_cross_entropy_grad computes the first term. This function adds the second term,
// which has one id per row.
void add_gradient_of_lse(const VjpCall& call, const CrossEntropyOperands& at,
                         std::vector<Value>& grads) {
  const Value x = call.inputs[0], nll = call.outputs[0], lse = call.outputs[1];
  const Targets target = targets_of(call.graph, at, call.inputs);
  Value share = select(target.counts, call.grads[1], full_like(lse, 0));
  if (at.head.softcap > 0) {
    const Value t = divide(subtract(lse, nll), full_like(lse, at.head.softcap));
    share = multiply(share, subtract(full_like(t, 1), multiply(t, t)));
  }
  const Value column = broadcast(reshape(share, Shape{x.dim(0), 1}), x.shape());
  const Value scale =
      at.head.scale >= 0 ? call.inputs[static_cast<size_t>(at.head.scale)] : Value{};
  grads[0] = add(grads[0], multiply(column, take(call.inputs[1], target.ids, scale)));
  if (grads[1].defined()) grads[1] = scatter_add(grads[1], target.ids, multiply(column, x));
  if (at.head.bias < 0) return;
  Value& bias = grads[static_cast<size_t>(at.head.bias)];
  if (bias.defined()) bias = scatter_add(bias, target.ids, share);
}

std::vector<Value> cross_entropy_vjp(const VjpCall& call) {
  const CrossEntropyOperands at = cross_entropy_operands(call.node.attributes, Part::loss);
  const Value weight = call.inputs[1];
  const bool of_lse = call.grads[1].defined();
  if (call.wanted[1]) expect_trainable("linear_cross_entropy", weight);
  if (is_wanted(call, at.head.scale))
    fail(Code::unimplemented, "[linear_cross_entropy] scale has no gradient");
  const bool want_bias = is_wanted(call, at.head.bias);
  Attributes attributes = call.node.attributes;
  attributes.set("want_weight", bool{call.wanted[1]});
  attributes.set("want_bias", want_bias);
  std::vector<Value> inputs(call.inputs.begin(), call.inputs.end());
  inputs.push_back(call.outputs[1]);
  Value both = call.grads[0];
  if (of_lse) both = both.defined() ? add(both, call.grads[1]) : call.grads[1];
  inputs.push_back(both);
  const auto made = apply_all("linear_cross_entropy_grad", inputs, attributes);
  std::vector<Value> grads(call.inputs.size());
  size_t next = 0;
  grads[0] = made[next++];
  if (call.wanted[1]) grads[1] = made[next++];
  if (want_bias) grads[static_cast<size_t>(at.head.bias)] = made[next++];
  if (of_lse) add_gradient_of_lse(call, at, grads);
  return grads;
}

struct Rows {
  Value logits; // (rows, vocab)
  Value counts; // u8(rows): the row has a target and is in use
  Value target; // i32(rows, 1), inside the vocabulary
};

Rows rows_of(Graph& graph, const CrossEntropyOperands& at, std::span<const Value> inputs) {
  const Targets target = targets_of(graph, at, inputs);
  return {head_logits(at.head, inputs), target.counts,
          reshape(target.ids, Shape{target.ids.dim(0), 1})};
}

std::vector<Value> cross_entropy_plain(Graph& graph, const Node& node,
                                       std::span<const Value> inputs) {
  const Rows at = rows_of(graph, cross_entropy_operands(node.attributes, Part::loss), inputs);
  const Value lse = log_sum_exp(at.logits);
  const Value none = full_like(lse, 0);
  const Value hit = reshape(take_along(at.logits, at.target, 1), lse.shape());
  return {select(at.counts, subtract(lse, hit), none), select(at.counts, lse, none)};
}

// d logits = (softmax - onehot) dnll, times 1 - (logit / softcap)^2 if logits are capped
std::vector<Value> cross_entropy_grad_plain(Graph& graph, const Node& node,
                                            std::span<const Value> inputs) {
  const CrossEntropyOperands where = cross_entropy_operands(node.attributes, Part::gradient);
  const Rows at = rows_of(graph, where, inputs);
  const int64_t rows = at.logits.dim(0);
  const Value x = inputs[0], column = reshape(at.counts, Shape{rows, 1});
  const Value lse = reshape(inputs[static_cast<size_t>(where.lse)], Shape{rows, 1});
  const Value dnll = reshape(inputs[static_cast<size_t>(where.dnll)], Shape{rows, 1});
  const Value none = full_like(at.logits, 0);
  const Value p = exp(select(column, subtract(at.logits, lse), none));
  const Value onehot =
      convert(equal(iota(graph, at.logits.shape(), DType::i32, 1), at.target), DType::f32);
  Value d = select(column, multiply(subtract(p, onehot), dnll), none);
  if (where.head.softcap > 0) {
    const Value t = divide(at.logits, full_like(at.logits, where.head.softcap));
    d = multiply(d, subtract(full_like(t, 1), multiply(t, t)));
  }
  const Value scale =
      where.head.scale >= 0 ? inputs[static_cast<size_t>(where.head.scale)] : Value{};
  std::vector<Value> results{dot(d, widen_weight(inputs[1], scale))};
  if (node.attributes.flag("want_weight")) results.push_back(dot(transpose(d, {1, 0}), x));
  if (node.attributes.flag("want_bias")) results.push_back(sum(d, {0}));
  return results;
}

// Returns the results of the loss and then of its gradient.
std::vector<Value> both_plain(Graph&, const Node& node, std::span<const Value> inputs) {
  const Attributes& all = node.attributes;
  Attributes loss{{"has_bias", all.flag("has_bias")},
                  {"has_scale", all.flag("has_scale")},
                  {"has_count", all.flag("has_count")},
                  {"softcap", all.number("softcap")}};
  std::vector<Value> operands(inputs.begin(), inputs.end() - 1);
  std::vector<Value> results = apply_all("linear_cross_entropy", operands, std::move(loss));
  operands.push_back(results[1]);
  operands.push_back(inputs.back());
  for (Value grad : apply_all("linear_cross_entropy_grad", operands, all)) results.push_back(grad);
  return results;
}

constexpr OpDef kCrossEntropyOps[] = {
    {.name = "linear_cross_entropy",
     .infer = cross_entropy_types,
     .vjp = cross_entropy_vjp,
     .decompose = cross_entropy_plain},
    {.name = "linear_cross_entropy_grad",
     .infer = cross_entropy_grad_types,
     .decompose = cross_entropy_grad_plain},
    {.name = "linear_cross_entropy_with_grad", .infer = both_types, .decompose = both_plain},
};

} // namespace

namespace ops {
std::span<const OpDef> linear_cross_entropy_ops() {
  return kCrossEntropyOps;
}
} // namespace ops

CrossEntropy linear_cross_entropy_parts(Value x, Value weight, Value bias, Value scale,
                                        Value targets, Value count, float softcap) {
  std::vector<Value> inputs{x, weight};
  if (bias.defined()) inputs.push_back(bias);
  if (scale.defined()) inputs.push_back(scale);
  inputs.push_back(targets);
  if (count.defined()) inputs.push_back(count);
  const auto made = apply_all("linear_cross_entropy", inputs,
                              {{"has_bias", bias.defined()},
                               {"has_scale", scale.defined()},
                               {"has_count", count.defined()},
                               {"softcap", static_cast<double>(softcap)}});
  return {made[0], made[1]};
}

Value linear_cross_entropy(Value x, Value weight, Value bias, Value scale, Value targets,
                           Value count, float softcap) {
  return linear_cross_entropy_parts(x, weight, bias, scale, targets, count, softcap).nll;
}

// Every rank computes the log-sum-exp of its part, and the target's logit lse - nll if it has the
// target. A target of another rank is replaced by id 0.
Value linear_cross_entropy_over(Axis axis, int64_t ranks, Value x, Value weight, Value bias,
                                Value scale, Value targets, Value count, float softcap) {
  Graph& graph = *x.graph;
  const AxisSet over(axis);
  const int64_t own = weight.dim(0), rows = x.dim(0);
  const auto number = [&](int64_t n) { return scalar_i32(graph, static_cast<int32_t>(n)); };
  const auto inside = [&](Value ids, int64_t end) {
    return logical_and(greater_equal(ids, number(0)), less(ids, number(end)));
  };
  const Value counts = logical_and(inside(targets, own * ranks), rows_in_use(graph, rows, count));
  const Value local = subtract(targets, multiply(axis_index(graph, axis), number(own)));
  const Value mine = inside(local, own), zero = full_like(local, 0);
  const Value named = select(counts, select(mine, local, zero), full_like(local, -1));
  const CrossEntropy part =
      linear_cross_entropy_parts(x, weight, bias, scale, named, count, softcap);
  const Value none = full_like(part.nll, 0);
  const Value hit = all_reduce(select(mine, subtract(part.log_sum_exp, part.nll), none), over);
  const Value top = stop_gradient(all_reduce_max(part.log_sum_exp, over));
  const Value total = all_reduce(exp(subtract(part.log_sum_exp, top)), over);
  return select(counts, subtract(add(top, log(total)), hit), full_like(hit, 0));
}

} // namespace dllm::graph
