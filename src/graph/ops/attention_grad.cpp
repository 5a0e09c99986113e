// attention_grad: dq, dk, dv from the saved output and log-sum-exp (Dao 2023); probabilities are
// made again.

#include "graph/ops/attention_mask.h"
#include "graph/ops/registry.h"

namespace dllm::graph {
namespace {

using namespace ops;

Types types(const OpCall& call) {
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

// p = exp(s - lse); dv = p^T dout; ds = p (dout v^T - sum(dout out)); dq = scale ds k; dk = scale
// ds^T q
std::vector<Value> plain(Graph& graph, const Node& node, std::span<const Value> inputs) {
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

constexpr OpDef kOps[] = {{.name = "attention_grad", .infer = types, .decompose = plain}};

} // namespace

namespace ops {
std::span<const OpDef> attention_grad_ops() {
  return kOps;
}
} // namespace ops

} // namespace dllm::graph
