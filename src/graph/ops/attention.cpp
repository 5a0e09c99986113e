// Attention and its gradient.

#include "graph/ops/build.h"

#include "base/error.h"
#include "graph/ops/attention_mask.h"

#include <limits>

namespace dllm::graph {
namespace {

using namespace ops;

// attention: softmax(scale q k^T, masked) v, with the log-sum-exp of every row kept for the
// gradient.

Types attention_types(const OpCall& call) {
  expect_heads(call);
  expect_mask(call, mask_plan(call.attributes), 3);
  const Shape& q = call.inputs[0].shape;
  return {{q.with_dim(3, call.inputs[2].shape.dim(3)), DType::f32, {}},
          {Shape{q.dim(0), q.dim(2), q.dim(1)}, DType::f32, {}}};
}

// Operands with one more column. The gradient of the scores is p (dout v^T - sum(dout out) + dlse).
// The column adds dlse: it is 1 in v, dlse in dout, and 0 in out.
struct WithLse {
  Value v, out, dout;
};

WithLse with_lse(const VjpCall& call) {
  const Value v = call.inputs[2], out = call.outputs[0], lse = call.outputs[1];
  // A query without a visible key has no scores.
  const Value share = select(is_finite(lse), call.grads[1], full_like(lse, 0));
  const Shape column = out.shape().with_dim(3, 1);
  const Value dout = call.grads[0].defined() ? call.grads[0] : full_like(out, 0);
  return {concat({v, full_like(slice_axis(v, 3, 0, 1), 1)}, 3),
          concat({out, full_like(slice_axis(out, 3, 0, 1), 0)}, 3),
          concat({dout, reshape(transpose(share, {0, 2, 1}), column)}, 3)};
}

std::vector<Value> attention_vjp(const VjpCall& call) {
  const bool of_lse = call.grads[1].defined();
  const WithLse at =
      of_lse ? with_lse(call) : WithLse{call.inputs[2], call.outputs[0], call.grads[0]};
  std::vector<Value> inputs{call.inputs[0], call.inputs[1], at.v};
  inputs.insert(inputs.end(), {at.out, call.outputs[1], at.dout});
  inputs.insert(inputs.end(), call.inputs.begin() + 3, call.inputs.end());
  std::vector<Value> grads = apply_all("attention_grad", inputs, call.node.attributes);
  if (of_lse) grads[2] = slice_axis(grads[2], 3, 0, call.inputs[2].dim(3));
  grads.resize(call.inputs.size());
  return grads;
}

std::vector<Value> attention_definition(Graph& graph, const Node& node,
                                        std::span<const Value> inputs) {
  const Scores at = attention_scores(graph, node, inputs, 3);
  const Value s = at.scores, none = full_like(s, 0);
  // With a finite floor a row without a visible key does not become NaN.
  const Value floor = full_like(s, -1e30);
  const Value top = max(select(at.visible, s, floor), {3}, true);
  const Value weight = select(at.visible, exp(minimum(subtract(s, top), none)), none);
  const Value total = sum(weight, {3}, true); // (batch, heads, queries, 1)
  const Value empty = equal(total, full_like(total, 0));
  Value p = divide(weight, select(empty, full_like(total, 1), total));
  if (node.attributes.flag("empty_average")) {
    p = select(empty, full_like(s, 1.0 / static_cast<double>(s.dim(3))), p);
  }
  const Value infinite = full_like(total, -std::numeric_limits<double>::infinity());
  const Value lse =
      select(empty, infinite, add(top, log(select(empty, full_like(total, 1), total))));
  const int64_t queries = inputs[0].dim(1), heads = inputs[0].dim(2), kv_heads = inputs[1].dim(2);
  const Value by_head = reshape(p, Shape{p.dim(0), kv_heads, heads / kv_heads * queries, p.dim(3)});
  return {from_kv_head(dot(by_head, at.v), queries, heads),
          reshape(lse, Shape{p.dim(0), heads, queries})};
}

// attention_grad: dq, dk, dv from the saved output and log-sum-exp (Dao 2023). The probabilities
// are recomputed.

Types attention_grad_types(const OpCall& call) {
  expect_heads(call);
  const Shape& q = call.inputs[0].shape;
  const Shape out = q.with_dim(3, call.inputs[2].shape.dim(3));
  if (call.inputs.size() < 6) fail_op(call, "takes q, k, v, out, lse, dout");
  expect_shape(call, 3, "out", out);
  expect_shape(call, 4, "lse", Shape{q.dim(0), q.dim(2), q.dim(1)});
  expect_shape(call, 5, "dout", out);
  for (size_t i = 3; i < 6; ++i) expect_dtype(call, i, "out, lse or dout", {DType::f32});
  expect_mask(call, mask_plan(call.attributes), 6);
  return {call.inputs[0], call.inputs[1], call.inputs[2]};
}

// p = exp(s - lse); dv = p^T dout; ds = p (dout v^T - sum(dout out)); dq = scale ds k;
// dk = scale ds^T q
std::vector<Value> attention_grad_definition(Graph& graph, const Node& node,
                                             std::span<const Value> inputs) {
  const Scores at = attention_scores(graph, node, inputs, 6);
  const Value q = inputs[0], out = inputs[3], dout = inputs[5];
  const int64_t batch = q.dim(0), queries = q.dim(1), heads = q.dim(2), keys = inputs[1].dim(1);
  const int64_t kv_heads = inputs[1].dim(2);
  const Shape table = at.scores.shape(), column{batch, heads, queries, 1};
  const Shape grouped{batch, kv_heads, heads / kv_heads * queries, keys};
  const Value lse = reshape(inputs[4], column), none = full_like(at.scores, 0);
  const Value empty = logical_not(is_finite(lse));
  const Value row = select(empty, full_like(lse, 0), lse);
  const Value sees = logical_and(at.visible, broadcast(logical_not(empty), table));
  const Value p = select(sees, exp(select(sees, subtract(at.scores, row), none)), none);
  Value weight_of_v = p;
  if (node.attributes.flag("empty_average")) {
    weight_of_v = select(empty, full_like(p, 1.0 / static_cast<double>(keys)), p);
  }
  const Value dout_by_head = by_kv_head(dout, kv_heads);
  const Value dv = dot(swap_last(reshape(weight_of_v, grouped)), dout_by_head);
  const Value dp = reshape(dot(dout_by_head, swap_last(at.v)), table);
  const Value delta =
      transpose(sum(multiply(dout, out), {3}), {0, 2, 1}); // (batch, heads, queries)
  Value ds = multiply(p, subtract(dp, reshape(delta, column)));
  if (at.capped_ratio.defined()) {
    const Value slope = subtract(full_like(ds, 1), multiply(at.capped_ratio, at.capped_ratio));
    ds = multiply(ds, slope);
  }
  ds = reshape(multiply(ds, full_like(ds, node.attributes.number("scale"))), grouped);
  return {from_kv_head(dot(ds, at.k), queries, heads),
          from_kv_head(dot(swap_last(ds), at.q), keys, kv_heads), from_kv_head(dv, keys, kv_heads)};
}

constexpr OpDef kAttentionOps[] = {
    {.name = "attention",
     .infer = attention_types,
     .vjp = attention_vjp,
     .decompose = attention_definition},
    {.name = "attention_grad",
     .infer = attention_grad_types,
     .decompose = attention_grad_definition},
};

} // namespace

namespace ops {
std::span<const OpDef> attention_ops() {
  return kAttentionOps;
}
} // namespace ops

AttentionParts attention_parts(Value q, Value k, Value v, const Mask& mask,
                               const AttentionOptions& options) {
  std::vector<Value> inputs{q, k, v};
  for (Value param : mask.params()) inputs.push_back(param);
  const auto made = apply_all("attention", inputs,
                              {{"kinds", mask.kinds()},
                               {"has_query_start", mask.query_start.defined()},
                               {"scale", static_cast<double>(options.scale)},
                               {"softcap", static_cast<double>(options.softcap)},
                               {"empty_average", options.empty_average}});
  return {made[0], made[1]};
}

Value attention(Value q, Value k, Value v, const Mask& mask, const AttentionOptions& options) {
  return attention_parts(q, k, v, mask, options).out;
}

} // namespace dllm::graph
