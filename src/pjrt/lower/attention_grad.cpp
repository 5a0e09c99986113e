// attention_grad: the chunks of attention once more. Probabilities are made again from the saved
// log-sum-exp (Dao 2023) and live inside the body; dk and dv are carried from chunk to chunk.

#include "graph/ops/build.h"
#include "pjrt/lower/attention_chunks.h"
#include "pjrt/lower/lowerings.h"

#include <limits>

namespace dllm::pjrt {

using graph::Value;
using namespace graph::ops;

namespace {

// Of some queries: dout (batch, kv_heads, group * queries, vdim), lse and delta (.., 1).
struct Pulled {
  Value q, lse, delta, dout;
};

struct Slopes {
  Value dq, dk, dv;
  Value unseen; // (batch, kv_heads, 1, vdim): dout of queries that see nothing, summed
};

// p = exp(s - lse); dv = p^T dout; ds = p (dout v^T - delta), times the slope of the cap; dq =
// scale ds k; dk = scale ds^T q. An lse of -infinity is a query that sees nothing, or none at all.
Slopes pull(const ChunkScores& at, const graph::Attributes& attributes, const Pulled& in, Value k,
            Value v) {
  const Shape table = at.scores.shape();
  const Shape column = table.with_dim(4, 1);
  const Shape by_head{table[0], table[1], table[2] * table[3], table[4]};
  const Value sees_any = is_finite(in.lse); // (batch, kv_heads, group * queries, 1)
  const Value lse = reshape(select(sees_any, in.lse, full_like(in.lse, 0)), column);
  const Value seen = logical_and(at.visible, broadcast(reshape(sees_any, column), table));
  const Value none = full_like(at.scores, 0);
  const Value p = select(seen, exp(select(seen, subtract(at.scores, lse), none)), none);
  const Value dp = reshape(dot(in.dout, swap_last(v)), table);
  Value ds = multiply(p, subtract(dp, reshape(in.delta, column)));
  if (at.capped_ratio.defined()) {
    const Value one = full_like(ds, 1);
    ds = multiply(ds, subtract(one, multiply(at.capped_ratio, at.capped_ratio)));
  }
  ds = reshape(multiply(ds, full_like(ds, attributes.number("scale"))), by_head);
  Slopes made{
      dot(ds, k), dot(swap_last(ds), in.q), dot(swap_last(reshape(p, by_head)), in.dout), {}};
  if (attributes.flag("empty_average")) {
    const Value lost = select(broadcast(sees_any, in.dout.shape()), full_like(in.dout, 0), in.dout);
    made.unseen = sum(lost, {2}, true);
  }
  return made;
}

// Queries that see nothing took the mean of all values.
Value with_unseen(Value dv, Value unseen) {
  if (!unseen.defined()) return dv;
  return add(dv, multiply(unseen, full_like(unseen, 1.0 / static_cast<double>(dv.dim(2)))));
}

// (batch, kv_heads, fewer, n) -> (batch, kv_heads, keys, n)
Value longer(Value x, int64_t keys) {
  if (x.dim(2) == keys) return x;
  return pad(x, {0, 0, 0, 0}, {0, 0, keys - x.dim(2), 0}, graph::scalar(*x.graph, 0));
}

struct Whole {
  Value k, v;                // (batch, kv_heads, keys, ..)
  Value q, lse, delta, dout; // (chunks, ..)
  Value first;               // i32(chunks)
};

} // namespace

Results lower_attention_grad(graph::Graph& graph, const graph::Node& node, Operands inputs) {
  const AttentionShape s(inputs);
  const ChunkPlan plan = plan_chunks(s, node.attributes);
  const NodeMask mask(node, inputs.subspan(6));
  const Chunks chunks(s, plan);
  const Value out = inputs[3], dout = inputs[5];
  // (batch, heads, queries)
  const Value delta = transpose(sum(multiply(dout, out), {3}), {0, 2, 1});
  const double nothing = -std::numeric_limits<double>::infinity();
  const Whole at{by_kv_head(inputs[1], s.kv_heads), by_kv_head(inputs[2], s.kv_heads),
                 chunks.of_heads(inputs[0]),        chunks.of_rows(inputs[4], nothing),
                 chunks.of_rows(delta, 0),          chunks.of_heads(dout),
                 chunks.first_queries(graph)};
  const auto only = [](Value x) { return reshape(x, x.shape().without(0)); };
  const bool average = node.attributes.flag("empty_average");
  if (plan.chunks == 1) {
    const Pulled rows{only(at.q), only(at.lse), only(at.delta), only(at.dout)};
    const ChunkScores scores =
        chunk_scores(mask, node.attributes, rows.q, at.k, only(at.first), s.queries);
    const Slopes made = pull(scores, node.attributes, rows, at.k, at.v);
    return {from_kv_head(made.dq, s.queries, s.heads), from_kv_head(made.dk, s.keys, s.kv_heads),
            from_kv_head(with_unseen(made.dv, made.unseen), s.keys, s.kv_heads)};
  }
  Value dk, dv, unseen;
  if (average) unseen = zeros(graph, Shape{s.batch, s.kv_heads, 1, s.vdim});
  std::vector<Value> dqs;
  for (const KeyExtent& extent : plan.extents) { // of growing lengths
    const Shape keys{s.batch, s.kv_heads, extent.keys, s.dim};
    dk = dk.defined() ? longer(dk, extent.keys) : zeros(graph, keys);
    dv = dv.defined() ? longer(dv, extent.keys) : zeros(graph, keys.with_dim(3, s.vdim));
    ScanBody body("attention gradient chunk", axes_of(inputs));
    const auto part = [&](Value x) {
      return body.element(slice_axis(x, 0, extent.begin, extent.end));
    };
    const Value dk_so_far = body.state(dk), dv_so_far = body.state(dv);
    const Value unseen_so_far = average ? body.state(unseen) : Value{};
    const Value q = part(at.q), lse = part(at.lse), row_delta = part(at.delta), d = part(at.dout),
                first = part(at.first);
    NodeMask own = chunks.cut_mask(body, mask, extent);
    own = chunks.share_mask(body, own, mask, extent);
    const Value k = body.outside(slice_axis(at.k, 2, 0, extent.keys));
    const Value v = body.outside(slice_axis(at.v, 2, 0, extent.keys));
    const ChunkScores scores = chunk_scores(own, node.attributes, q, k, first, plan.rows);
    const Slopes made = pull(scores, node.attributes, {q, lse, row_delta, d}, k, v);
    std::vector<Value> next{add(dk_so_far, made.dk), add(dv_so_far, made.dv)};
    if (average) next.push_back(add(unseen_so_far, made.unseen));
    const graph::ScanResult done = body.run(next, {made.dq}, extent.end - extent.begin);
    dk = done.carry[0];
    dv = done.carry[1];
    if (average) unseen = done.carry[2];
    dqs.push_back(done.stacked[0]);
  }
  dv = with_unseen(longer(dv, s.keys), unseen);
  return {chunks.to_heads(graph::concat(dqs, 0)),
          from_kv_head(longer(dk, s.keys), s.keys, s.kv_heads),
          from_kv_head(dv, s.keys, s.kv_heads)};
}

} // namespace dllm::pjrt
