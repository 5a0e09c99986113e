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

// The function for one part. `logits` is (part, vocab), computed from the first of the rows; the
// span has the parts (part, ...) of the other arrays. The results are (part / n, ...) for a part of
// even length, n = 1 or 2.
using HeadRowsBody =
    std::function<std::vector<graph::Value>(graph::Value logits, std::span<const graph::Value>)>;

// Returns each result of the body for all rows. `rows` has arrays of equal length: hidden states
// (rows, hidden), then i32 or f32 arrays. `banned` is a token whose logit becomes -1e30; -1: none.
std::vector<graph::Value> over_head_rows(const std::string& name, const model::Head& head,
                                         std::span<const graph::Value> rows, int32_t banned,
                                         const HeadRowsBody& body);

} // namespace dllm::noise
