#pragma once
// What attention and its gradient share: queries cut into chunks, the part of the mask that belongs
// to a chunk, scores of a chunk.

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

// Chunks [begin, end) see no key from `keys` on.
struct KeyExtent {
  int64_t begin, end, keys;
};

struct ChunkPlan {
  int64_t rows = 0;   // queries of a chunk
  int64_t chunks = 1; // 1: everything at once
  std::vector<KeyExtent> extents;
};
ChunkPlan plan_chunks(const AttentionShape& shape, const graph::Attributes& attributes);

// The mask of a node, apart from where the queries and keys are.
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
// q (batch, kv_heads, group * queries, dim), k (batch, kv_heads, keys, dim); first: coordinate of
// the first query without query_start, i32(); the mask's params are those of these queries.
ChunkScores chunk_scores(const NodeMask& mask, const graph::Attributes& attributes, graph::Value q,
                         graph::Value k, graph::Value first, int64_t queries);

// The chunks of an operand, and back.
class Chunks {
public:
  Chunks(const AttentionShape& shape, const ChunkPlan& plan) : s_(shape), plan_(plan) {}

  // (batch, queries, heads, n) -> (chunks, batch, kv_heads, group * rows, n)
  graph::Value of_heads(graph::Value x) const;
  graph::Value to_heads(graph::Value x) const;
  // (batch, heads, queries) -> (chunks, batch, kv_heads, group * rows, 1); fill: of queries beyond
  graph::Value of_rows(graph::Value x, double fill) const;
  graph::Value to_rows(graph::Value x) const;
  // i32(chunks): coordinate of each first query.
  graph::Value first_queries(graph::Graph& graph) const;

  // Declares the mask inside the body of a scan over the chunks of an extent: what runs along the
  // queries as elements, then, with share_mask, the rest as it is.
  NodeMask cut_mask(ScanBody& body, const NodeMask& mask, const KeyExtent& extent) const;
  NodeMask share_mask(ScanBody& body, NodeMask cut, const NodeMask& mask,
                      const KeyExtent& extent) const;

private:
  // Axis `axis` of `queries` -> (chunks, .., rows, ..)
  graph::Value stack(graph::Value x, int64_t axis, double fill) const;

  const AttentionShape& s_;
  const ChunkPlan& plan_;
};

} // namespace dllm::pjrt
