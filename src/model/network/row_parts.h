#pragma once
// Cuts the positions of rows over the ranks of mesh axis sequence. Layers work on the positions of
// their rank. Attention needs all keys of a row, so it exchanges positions for heads.
//
// Let n be the bytes of q, k, v and the result of a rank's positions, and m the number of ranks. A
// rank sends n (m - 1) / m bytes forward and as many for the gradient (Jacobs et al. 2023,
// DeepSpeed-Ulysses).
// Where the heads do not divide, the keys and values, s bytes on each rank, are passed from rank to
// rank (Liu et al. 2023, Ring Attention). A rank then sends s (m - 1) bytes forward and s (2 m - 1)
// for the gradient. Under masks of two streams keys and values are gathered.

#include "graph/ops.h"

namespace dllm::model {

// Returns the positions of this rank: x (batch, seq, ..) -> (batch, seq / ranks, ..). Returns x
// itself for one rank or an undefined x. Fails with invalid_argument when seq does not divide by
// the ranks.
graph::Value own_positions(graph::Value x, int64_t ranks);
// Returns the positions of all ranks, equal on all of them.
graph::Value all_positions(graph::Value own, int64_t ranks);
// Computes attention. `q` is (batch, seq / ranks, heads, size), and k and v have the heads of keys.
// `mask` is the mask of whole rows. The result has the positions of q.
graph::Value row_attention(graph::Value q, graph::Value k, graph::Value v, const graph::Mask& mask,
                           const graph::AttentionOptions& options, int64_t ranks);

// Returns every `ranks`-th row, beginning with this rank's own: x (capacity) -> (ceil(capacity /
// ranks)), padded with zeros. Rows in use come first, so the ranks' numbers of used rows differ by
// at most one.
graph::Value dealt_rows(graph::Value x, int64_t ranks);
// Returns i32(): the number of used rows of this rank, when the first `count` rows are in use.
graph::Value dealt_count(graph::Value count, int64_t ranks);

} // namespace dllm::model
