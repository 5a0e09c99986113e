#pragma once
// Rows whose positions are cut over the ranks of mesh axis sequence. Layers work on this rank's positions, but attention
// needs all keys of a row: it exchanges positions for heads.
//
// Of n bytes of q, k, v and the result together, of the rank's positions, a rank sends n (m - 1) / m forward, and as many for the gradient
// (Jacobs et al. 2023, DeepSpeed-Ulysses). Where heads do not divide, keys and values of s bytes on each rank are passed on (Liu et al.
// 2023, Ring Attention): s (m - 1) forward, s (2 m - 1) for the gradient. Under masks of two streams they are gathered.

#include "graph/ops.h"

namespace dllm::model {

// The positions of this rank, x (batch, seq, ..) -> (batch, seq / ranks, ..). x itself for one rank, or where it is undefined.
// Fails with invalid_argument when seq does not divide by the ranks.
graph::Value own_positions(graph::Value x, int64_t ranks);
// The opposite, equal on all ranks.
graph::Value all_positions(graph::Value own, int64_t ranks);
// q (batch, seq / ranks, heads, size), k and v with the heads of keys; mask: of whole rows. The result has the positions of q.
graph::Value row_attention(graph::Value q, graph::Value k, graph::Value v, const graph::Mask& mask,
                           const graph::AttentionOptions& options, int64_t ranks);

// Every `ranks`-th of the rows of a head, beginning with this rank's own: rows in use come first, so all ranks have as
// many of them but for one. x (capacity) -> (ceil(capacity / ranks)), filled up with zeros.
graph::Value dealt_rows(graph::Value x, int64_t ranks);
// i32(): how many of the first `count` rows this rank was dealt.
graph::Value dealt_count(graph::Value count, int64_t ranks);

} // namespace dllm::model
