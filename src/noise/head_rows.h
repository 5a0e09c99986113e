#pragma once
// What a loss makes of the logits of its head rows, some rows at a time, so that no (rows, vocab) is kept. The backward
// pass computes the logits of a part again.

#include "graph/ops.h"
#include "model/builder.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dllm::noise {

// logits (part, vocab) of the first of the rows; rows: the parts (part, ...) of the arrays. Results (part / n, ...) for a
// part of even length, n = 1 or 2.
using HeadRowsBody =
    std::function<std::vector<graph::Value>(graph::Value logits, std::span<const graph::Value>)>;

// rows: arrays of as many rows; the first holds hidden states (rows, hidden), the others i32 or f32. Each result of the
// body for all rows. banned: a token whose logit is -1e30; -1: none.
std::vector<graph::Value> over_head_rows(const std::string& name, const model::Head& head,
                                         std::span<const graph::Value> rows, int32_t banned,
                                         const HeadRowsBody& body);

} // namespace dllm::noise
