#pragma once
// The order of ids that filters share: the larger logit first, then the lower id.

#include "graph/filters/filter.h"

#include <cstdint>

namespace dllm::graph {

struct BetterId {
  const float* logits;
  bool operator()(int32_t a, int32_t b) const {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  }
};

// Writes the ids of the `count` largest logits to ids[0..] in this order, and returns their number.
// Ids with logit -infinity are left out. `ids` has room for vocab numbers.
int64_t best_ids(const float* logits, int64_t vocab, int64_t count, int32_t* ids);

// Rows of a graph in this order. All are (rows, vocab).
struct SortedRows {
  Value ids;  // i32
  Value z;    // f32
  Value kept; // u8
  Value rank; // f32: how many ids before it are left
};
SortedRows sorted_rows(const FilteredRows& rows);
// Returns u8(rows, vocab) by id, from the same in the order of the rows.
Value by_id(const SortedRows& sorted, Value kept);

} // namespace dllm::graph
