#pragma once
// Reads the mask of an attention node, checks its operands, and computes the mask as a table.
// Attention and its gradient share this header.

#include "graph/mask.h"
#include "graph/ops/build.h"

#include <vector>

namespace dllm::graph::ops {

struct MaskPlan {
  std::vector<MaskKind> kinds;
  bool has_query_start = false;
};

MaskPlan mask_plan(const Attributes& attributes);
// Checks the mask operands from index `first` on. Operands 0 and 1 are q (batch, queries, ..) and k
// (batch, keys, ..).
void expect_mask(const OpCall& call, const MaskPlan& plan, size_t first);
// Checks q, k and v, the first operands of every attention operation.
void expect_heads(const OpCall& call);
// Returns u8(batch, 1, queries, keys), 1 if the query attends to the key. params: as in the node.
// Only decompositions use it.
Value visible_table(const MaskPlan& plan, std::span<const Value> params, const Shape& q,
                    const Shape& k, Graph& graph);
// Returns u8 that broadcasts to (batch, queries, keys). query i32(batch or 1, queries, 1) and key
// i32(1, 1, keys): coordinates. params: the parameters of the kinds, without query_start, for these
// queries and keys.
Value visible_pairs(const MaskPlan& plan, std::span<const Value> params, Value query, Value key);

// The attention scores before and after the softcap, and the operands by key-value head.
struct Scores {
  // q (batch, kv_heads, group * queries, dim), k and v (batch, kv_heads, keys, dim or vdim).
  Value q, k, v;
  Value capped_ratio; // tanh(s / softcap); undefined without a cap
  Value scores;       // (batch, heads, queries, keys)
  Value visible;      // u8, shape of scores
};
Scores attention_scores(Graph& graph, const Node& node, std::span<const Value> inputs,
                        size_t first_param);
// Convert (batch, n, heads, dim) to (batch, kv_heads, group * n, dim), and back.
Value by_kv_head(Value x, int64_t kv_heads);
Value from_kv_head(Value x, int64_t n, int64_t heads);

} // namespace dllm::graph::ops
