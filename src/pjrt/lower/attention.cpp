// attention: dense where the table of scores is small, else a scan over chunks of queries whose
// scores live inside the body alone. Query heads of a group are more rows of one product with the
// keys of their head, so keys and values are never repeated.

#include "graph/ops/build.h"
#include "pjrt/lower/attention_chunks.h"
#include "pjrt/lower/lowerings.h"

#include <limits>

namespace dllm::pjrt {

using graph::Value;
using namespace graph::ops;

namespace {

struct Attended {
  Value out; // (batch, kv_heads, group * queries, vdim)
  Value lse; // (batch, kv_heads, group * queries, 1)
};

// v (batch, kv_heads, keys, vdim); average (batch, kv_heads, 1, vdim): of queries that see nothing,
// undefined: they give 0.
Attended attend(const ChunkScores& at, Value v, Value average) {
  const Value s = at.scores, none = full_like(s, 0);
  // A finite floor keeps rows without a visible key free of NaN.
  const Value top = max(select(at.visible, s, full_like(s, -1e30)), {4}, true);
  const Value weight = select(at.visible, exp(minimum(subtract(s, top), none)), none);
  const Shape rows{s.dim(0), s.dim(1), s.dim(2) * s.dim(3), 1};
  const Value total = reshape(sum(weight, {4}, true), rows);
  const Value empty = equal(total, full_like(total, 0));
  const Value divisor = select(empty, full_like(total, 1), total);
  const Value by_head = reshape(weight, rows.with_dim(3, s.dim(4)));
  Value out = divide(dot(by_head, v),
                     divisor); // dividing (queries, vdim) is less work than (queries, keys)
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

} // namespace dllm::pjrt
