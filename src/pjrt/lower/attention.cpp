// Lowers attention and its gradient, whole or in chunks.

#include "graph/ops/build.h"
#include "pjrt/lower/attention_chunks.h"
#include "pjrt/lower/lower.h"

#include <limits>

namespace dllm::pjrt {

// attention is dense where the table of scores is small, else a scan over chunks of queries. The
// scores of a chunk exist only inside the body. The query heads of a group are rows of one product
// with the keys of their head, so keys and values are not repeated.

using graph::Value;
using namespace graph::ops;

namespace {

struct Attended {
  Value out; // (batch, kv_heads, group * queries, vdim)
  Value lse; // (batch, kv_heads, group * queries, 1)
};

// Computes the result of some queries. v (batch, kv_heads, keys, vdim); average (batch, kv_heads,
// 1, vdim) is the result of queries that see no key, 0 if undefined.
Attended attend(const ChunkScores& at, Value v, Value average) {
  const Value s = at.scores, none = full_like(s, 0);
  // The floor is finite so that rows without a visible key do not become NaN.
  const Value top = max(select(at.visible, s, full_like(s, -1e30)), {4}, true);
  const Value weight = select(at.visible, exp(minimum(subtract(s, top), none)), none);
  const Shape rows{s.dim(0), s.dim(1), s.dim(2) * s.dim(3), 1};
  const Value total = reshape(sum(weight, {4}, true), rows);
  const Value empty = equal(total, full_like(total, 0));
  const Value divisor = select(empty, full_like(total, 1), total);
  const Value by_head = reshape(weight, rows.with_dim(3, s.dim(4)));
  // Dividing (queries, vdim) is less work than dividing (queries, keys).
  Value out = divide(dot(by_head, v), divisor);
  if (average.defined()) {
    out = select(broadcast(empty, out.shape()), broadcast(average, out.shape()), out);
  }
  const Value nothing = full_like(total, -std::numeric_limits<double>::infinity());
  return {out, select(empty, nothing, add(reshape(top, rows), log(divisor)))};
}

} // namespace

Results lower_attention(graph::Graph& graph, const graph::Node& node, Operands inputs) {
  const AttentionShape s(inputs);
  const ChunkPlan plan = plan_chunks(s, node.attributes);
  const NodeMask mask(node, inputs.subspan(3));
  const Value k = by_kv_head(inputs[1], s.kv_heads), v = by_kv_head(inputs[2], s.kv_heads);
  const Value average = node.attributes.flag("empty_average") ? graph::mean(v, {2}, true) : Value{};
  if (plan.chunks == 1) {
    const Value q = by_kv_head(inputs[0], s.kv_heads);
    const Value first = graph::scalar_i32(graph, 0);
    const Attended made =
        attend(chunk_scores(mask, node.attributes, q, k, first, s.queries), v, average);
    return {from_kv_head(made.out, s.queries, s.heads),
            reshape(made.lse, Shape{s.batch, s.heads, s.queries})};
  }
  const Chunks chunks(s, plan);
  const Value q = chunks.of_heads(inputs[0]), first = chunks.first_queries(graph);
  std::vector<Value> outs, lses;
  for (const KeyExtent& extent : plan.extents) {
    ScanBody body("attention chunk", axes_of(inputs));
    const auto part = [&](Value x) {
      return body.element(slice_axis(x, 0, extent.begin, extent.end));
    };
    const Value q_chunk = part(q), first_query = part(first);
    NodeMask own = chunks.cut_mask(body, mask, extent);
    own = chunks.share_mask(body, own, mask, extent);
    const Value keys = body.outside(slice_axis(k, 2, 0, extent.keys));
    const Value values = body.outside(slice_axis(v, 2, 0, extent.keys));
    const Value mean_value = body.outside(average);
    const Attended made =
        attend(chunk_scores(own, node.attributes, q_chunk, keys, first_query, plan.rows), values,
               mean_value);
    const auto stacked = body.run({}, {made.out, made.lse}, extent.end - extent.begin).stacked;
    outs.push_back(stacked[0]);
    lses.push_back(stacked[1]);
  }
  return {chunks.to_heads(graph::concat(outs, 0)), chunks.to_rows(graph::concat(lses, 0))};
}

// attention_grad has the same chunks. Probabilities are computed again from the saved log-sum-exp
// (Dao 2023) and exist only inside the body. dk and dv are carried from chunk to chunk.

using graph::Value;
using namespace graph::ops;

namespace {

// Operands of some queries: q (batch, kv_heads, group * queries, dim), dout (.., vdim), lse and
// delta (.., 1).
struct Pulled {
  Value q, lse, delta, dout;
};

struct Slopes {
  Value dq, dk, dv;
  Value unseen; // (batch, kv_heads, 1, vdim): sum of dout over queries that see no key
};

// Computes the gradients of some queries:
//   p = exp(s - lse), dv = p^T dout
//   ds = p (dout v^T - delta) times the slope of the cap
//   dq = scale ds k, dk = scale ds^T q
// An lse of -infinity marks a query that sees no key, or padding after the last query.
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

// Adds the gradient of queries that see no key, whose result is the mean of all values.
Value with_unseen(Value dv, Value unseen) {
  if (!unseen.defined()) return dv;
  return add(dv, multiply(unseen, full_like(unseen, 1.0 / static_cast<double>(dv.dim(2)))));
}

// (batch, kv_heads, fewer, n) -> (batch, kv_heads, keys, n)
Value longer(Value x, int64_t keys) {
  if (x.dim(2) == keys) return x;
  if (x.dim(2) == 0) return zeros(*x.graph, x.shape().with_dim(2, keys));
  return pad(x, {0, 0, 0, 0}, {0, 0, keys - x.dim(2), 0}, graph::scalar(*x.graph, 0));
}

// Operands of all chunks.
struct Whole {
  Value k, v;                // (batch, kv_heads, keys, ..)
  Value q, lse, delta, dout; // (chunks, ..)
  Value first;               // i32(chunks)
  NodeMask mask;
};

// Adds the chunks of an extent to dk, dv and unseen of `sums`, where dk and dv have as many keys as
// the extent. Returns dq (chunks of the extent, ..).
Value pull_extent(const Chunks& chunks, const Whole& at, const graph::Attributes& attributes,
                  const KeyExtent& extent, int64_t rows, graph::AxisSet axes, Slopes& sums) {
  ScanBody body("attention gradient chunk", axes);
  const auto part = [&](Value x) {
    return body.element(slice_axis(x, 0, extent.begin, extent.end));
  };
  const auto keys_of = [&](Value x) { return body.outside(slice_axis(x, 2, 0, extent.keys)); };
  const bool average = sums.unseen.defined();
  const Value dk = body.state(sums.dk), dv = body.state(sums.dv);
  const Value unseen = average ? body.state(sums.unseen) : Value{};
  const Value q = part(at.q), lse = part(at.lse), delta = part(at.delta), dout = part(at.dout),
              first = part(at.first);
  NodeMask own = chunks.cut_mask(body, at.mask, extent);
  own = chunks.share_mask(body, own, at.mask, extent);
  const Value k = keys_of(at.k), v = keys_of(at.v);
  const ChunkScores scores = chunk_scores(own, attributes, q, k, first, rows);
  const Slopes made = pull(scores, attributes, {q, lse, delta, dout}, k, v);
  std::vector<Value> next{add(dk, made.dk), add(dv, made.dv)};
  if (average) next.push_back(add(unseen, made.unseen));
  const graph::ScanResult done = body.run(next, {made.dq}, extent.end - extent.begin);
  sums.dk = done.carry[0];
  sums.dv = done.carry[1];
  if (average) sums.unseen = done.carry[2];
  return done.stacked[0];
}

} // namespace

Results lower_attention_grad(graph::Graph& graph, const graph::Node& node, Operands inputs) {
  const AttentionShape s(inputs);
  const ChunkPlan plan = plan_chunks(s, node.attributes);
  const Chunks chunks(s, plan);
  const Value out = inputs[3], dout = inputs[5];
  const Value delta = transpose(sum(multiply(dout, out), {3}), {0, 2, 1}); // in the shape of lse
  const double nothing = -std::numeric_limits<double>::infinity();
  const Whole at{by_kv_head(inputs[1], s.kv_heads), by_kv_head(inputs[2], s.kv_heads),
                 chunks.of_heads(inputs[0]),        chunks.of_rows(inputs[4], nothing),
                 chunks.of_rows(delta, 0),          chunks.of_heads(dout),
                 chunks.first_queries(graph),       NodeMask(node, inputs.subspan(6))};
  const auto by_place = [&](Value x) { return from_kv_head(x, s.keys, s.kv_heads); };
  if (plan.chunks == 1) {
    const auto only = [](Value x) { return reshape(x, x.shape().without(0)); };
    const Pulled rows{only(at.q), only(at.lse), only(at.delta), only(at.dout)};
    const ChunkScores scores =
        chunk_scores(at.mask, node.attributes, rows.q, at.k, only(at.first), s.queries);
    const Slopes made = pull(scores, node.attributes, rows, at.k, at.v);
    return {from_kv_head(made.dq, s.queries, s.heads), by_place(made.dk),
            by_place(with_unseen(made.dv, made.unseen))};
  }
  Slopes sums;
  const Shape none{s.batch, s.kv_heads, 0, s.dim};
  sums.dk = zeros(graph, none);
  sums.dv = zeros(graph, none.with_dim(3, s.vdim));
  if (node.attributes.flag("empty_average"))
    sums.unseen = zeros(graph, Shape{s.batch, s.kv_heads, 1, s.vdim});
  std::vector<Value> dqs;
  for (const KeyExtent& extent : plan.extents) { // extents are sorted by their number of keys
    sums.dk = longer(sums.dk, extent.keys);
    sums.dv = longer(sums.dv, extent.keys);
    dqs.push_back(
        pull_extent(chunks, at, node.attributes, extent, plan.rows, axes_of(inputs), sums));
  }
  const Value dv = with_unseen(longer(sums.dv, s.keys), sums.unseen);
  return {chunks.to_heads(graph::concat(dqs, 0)), by_place(longer(sums.dk, s.keys)), by_place(dv)};
}

} // namespace dllm::pjrt
