#pragma once
// What attention and its gradient share: reading the mask attributes, checking operands, the mask
// as a table.

#include "graph/mask.h"
#include "graph/ops/build.h"

#include <vector>

namespace dllm::graph::ops {

struct MaskPlan {
  std::vector<MaskKind> kinds;
  bool has_query_start = false;
};

MaskPlan mask_plan(const Attributes& attributes);
// Checks mask operands from index `first` on; q (batch, queries, ..), k (batch, keys, ..) are
// operands 0 and 1.
void expect_mask(const OpCall& call, const MaskPlan& plan, size_t first);
// q, k, v of every attention operation.
void expect_heads(const OpCall& call);
// u8(batch, 1, queries, keys): 1 where the query sees the key. params as in the node. For
// decompositions only.
Value visible_table(const MaskPlan& plan, std::span<const Value> params, const Shape& q,
                    const Shape& k, Graph& graph);
// u8, broadcasts to (batch, queries, keys). query i32(batch or 1, queries, 1) and key i32(1, 1,
// keys) are coordinates; params are those of the kinds, without query_start, for these queries and
// keys.
Value visible_pairs(const MaskPlan& plan, std::span<const Value> params, Value query, Value key);

// Scores (batch, heads, queries, keys) before and after the cap, and the operands by head.
struct Scores {
  Value q, k, v; // (batch, kv_heads, group * queries, dim), (batch, kv_heads, keys, dim | vdim)
  Value capped_ratio; // tanh(s / softcap); undefined without a cap
  Value scores;       // (batch, heads, queries, keys)
  Value visible;      // u8, same shape
};
Scores attention_scores(Graph& graph, const Node& node, std::span<const Value> inputs,
                        size_t first_param);
// (batch, n, heads, dim) <-> (batch, kv_heads, group * n, dim)
Value by_kv_head(Value x, int64_t kv_heads);
Value from_kv_head(Value x, int64_t n, int64_t heads);

} // namespace dllm::graph::ops
