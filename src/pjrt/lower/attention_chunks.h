#pragma once
// Attention and its gradient share these functions. They cut queries and the mask into chunks and
// compute the scores of a chunk.

#include "graph/ops/attention_mask.h"
#include "pjrt/lower/lower.h"

#include <span>
#include <vector>

namespace dllm::pjrt {

struct AttentionShape {
  int64_t batch, queries, keys, heads, kv_heads, dim, vdim;
  int64_t group() const { return heads / kv_heads; }

  // q (batch, queries, heads, dim), k (batch, keys, kv_heads, dim), v (batch, keys, kv_heads, vdim)
  explicit AttentionShape(std::span<const graph::Value> q_k_v);
};

// Chunks [begin, end) see only the first `keys` keys.
struct KeyExtent {
  int64_t begin, end, keys;
};

struct ChunkPlan {
  int64_t rows = 0;   // queries of a chunk
  int64_t chunks = 1; // 1: all queries are computed at once
  std::vector<KeyExtent> extents;
};
ChunkPlan plan_chunks(const AttentionShape& shape, const graph::Attributes& attributes);

// The mask of a node. The coordinates of queries and keys are not part of it.
struct NodeMask {
  graph::ops::MaskPlan plan;
  graph::Value query_start; // i32(batch, 1, 1) or undefined
  std::vector<graph::Value> params;

  NodeMask(const graph::Node& node, std::span<const graph::Value> params_of_node);
};

// Scores of some queries against some keys.
struct ChunkScores {
  graph::Value scores;       // (batch, kv_heads, group, queries, keys), after scale and cap
  graph::Value visible;      // u8, same shape
  graph::Value capped_ratio; // tanh(s / softcap); undefined without a cap
};
// Computes the scores of q (batch, kv_heads, group * queries, dim) and k (batch, kv_heads, keys,
// dim). first: coordinate i32() of the first query, to which query_start is added. mask.params
// belong to these queries and keys.
ChunkScores chunk_scores(const NodeMask& mask, const graph::Attributes& attributes, graph::Value q,
                         graph::Value k, graph::Value first, int64_t queries);

// Cuts operands into chunks and joins the chunks of results.
class Chunks {
public:
  Chunks(const AttentionShape& shape, const ChunkPlan& plan) : s_(shape), plan_(plan) {}

  // (batch, queries, heads, n) -> (chunks, batch, kv_heads, group * rows, n)
  graph::Value of_heads(graph::Value x) const;
  graph::Value to_heads(graph::Value x) const;
  // (batch, heads, queries) -> (chunks, batch, kv_heads, group * rows, 1). fill: value after the
  // last query
  graph::Value of_rows(graph::Value x, double fill) const;
  graph::Value to_rows(graph::Value x) const;
  // Returns i32(chunks): the coordinate of the first query of each chunk.
  graph::Value first_queries(graph::Graph& graph) const;

  // Declare the mask inside the body of a scan over the chunks of an extent. cut_mask() declares
  // parameters with an axis of queries, as elements. share_mask(), called after it, declares the
  // other parameters, which every chunk gets whole.
  NodeMask cut_mask(ScanBody& body, const NodeMask& mask, const KeyExtent& extent) const;
  NodeMask share_mask(ScanBody& body, NodeMask cut, const NodeMask& mask,
                      const KeyExtent& extent) const;

private:
  // Cuts axis `axis` of queries: (.., queries, ..) -> (chunks, .., rows, ..).
  graph::Value stack(graph::Value x, int64_t axis, double fill) const;

  const AttentionShape& s_;
  const ChunkPlan& plan_;
};

} // namespace dllm::pjrt
