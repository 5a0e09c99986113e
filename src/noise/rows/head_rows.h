#pragma once
// Runs a function of a loss on the logits of a few head rows at a time, so that no (rows, vocab)
// array is kept. The backward pass computes the logits of each part again.

#include "graph/ops.h"
#include "model/network/builder.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dllm::noise {

// Hidden states and the head that makes logits of them.
struct HeadOfRows {
  model::Head head;
  graph::Value hidden; // f32(rows, hidden)
  int32_t banned = -1; // a token whose logit becomes -1e30; -1: none
};

// The function for one part. The first span has the logits (part, vocab) of each head, and the
// second one the parts (part, ...) of the other arrays. The results are (part / n, ...) for a part
// of even length, n = 1 or 2.
using HeadRowsBody = std::function<std::vector<graph::Value>(std::span<const graph::Value> logits,
                                                             std::span<const graph::Value> rows)>;

// Returns each result of the body for all rows. `rows` has i32 or f32 arrays of as many rows as the
// hidden states.
std::vector<graph::Value> over_head_rows(const std::string& name, std::span<const HeadOfRows> heads,
                                         std::span<const graph::Value> rows,
                                         const HeadRowsBody& body);

} // namespace dllm::noise
