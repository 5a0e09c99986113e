// attention: softmax(scale q k^T, masked) v, with the log-sum-exp of every row kept for the
// gradient.

#include "graph/ops/attention_mask.h"
#include "graph/ops/registry.h"

#include "base/error.h"

#include <limits>

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
  expect_heads(call);
  expect_mask(call, mask_plan(call.attributes), 3);
  const Shape& q = call.inputs[0].shape;
  return {{q.with_dim(3, call.inputs[2].shape.dim(3)), DType::f32, {}},
          {Shape{q.dim(0), q.dim(2), q.dim(1)}, DType::f32, {}}};
}

// The gradient of the scores is p (dout v^T - sum(dout out) + dlse). One more column does the last part: 1 in
// v, dlse in dout, 0 in out.
struct WithLse {
  Value v, out, dout;
};

WithLse with_lse(const VjpCall& call) {
  const Value v = call.inputs[2], out = call.outputs[0], lse = call.outputs[1];
  // A query that sees nothing has no scores.
  const Value share = select(is_finite(lse), call.grads[1], full_like(lse, 0));
  const Shape column = out.shape().with_dim(3, 1);
  const Value dout = call.grads[0].defined() ? call.grads[0] : full_like(out, 0);
  return {concat({v, full_like(slice_axis(v, 3, 0, 1), 1)}, 3),
          concat({out, full_like(slice_axis(out, 3, 0, 1), 0)}, 3),
          concat({dout, reshape(transpose(share, {0, 2, 1}), column)}, 3)};
}

std::vector<Value> vjp(const VjpCall& call) {
  const bool of_lse = call.grads[1].defined();
  const WithLse at = of_lse ? with_lse(call) : WithLse{call.inputs[2], call.outputs[0], call.grads[0]};
  std::vector<Value> inputs{call.inputs[0], call.inputs[1], at.v};
  inputs.insert(inputs.end(), {at.out, call.outputs[1], at.dout});
  inputs.insert(inputs.end(), call.inputs.begin() + 3, call.inputs.end());
  std::vector<Value> grads = apply_all("attention_grad", inputs, call.node.attributes);
  if (of_lse) grads[2] = slice_axis(grads[2], 3, 0, call.inputs[2].dim(3));
  grads.resize(call.inputs.size());
  return grads;
}

std::vector<Value> plain(Graph& graph, const Node& node, std::span<const Value> inputs) {
  const Scores at = attention_scores(graph, node, inputs, 3);
  const Value s = at.scores, none = full_like(s, 0);
  // A finite floor keeps rows without a visible key free of NaN.
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

constexpr OpDef kOps[] = {{.name = "attention", .infer = types, .vjp = vjp, .decompose = plain}};

} // namespace

namespace ops {
std::span<const OpDef> attention_ops() {
  return kOps;
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
