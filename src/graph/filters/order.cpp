#include "graph/filters/order.h"

#include "graph/ops.h"
#include "graph/ops/build.h"

#include <algorithm>
#include <limits>

namespace dllm::graph {

int64_t best_ids(const float* logits, int64_t vocab, int64_t count, int32_t* ids) {
  // A heap of the best ids so far, with the worst on top. Most ids need only one comparison.
  const BetterId better{logits};
  int64_t size = 0;
  for (int64_t i = 0; i < vocab && count > 0; ++i) {
    const int32_t id = static_cast<int32_t>(i);
    if (!(logits[i] > -std::numeric_limits<float>::infinity())) continue;
    if (size < count) {
      ids[size++] = id;
      std::push_heap(ids, ids + size, better);
    } else if (better(id, ids[0])) {
      std::pop_heap(ids, ids + size, better);
      ids[size - 1] = id;
      std::push_heap(ids, ids + size, better);
    }
  }
  std::sort_heap(ids, ids + size, better);
  return size;
}

SortedRows sorted_rows(const FilteredRows& rows) {
  const TopK sorted = sort(rows.z, true);
  const Value kept = take_along(convert(rows.kept, DType::f32), sorted.indices, 1);
  const Value before = subtract(cumsum(kept, 1), kept);
  return {sorted.indices, sorted.values, greater(kept, ops::full_like(kept, 0.5)), before};
}

Value by_id(const SortedRows& sorted, Value kept) {
  const Value placed =
      ops::scatter_along_last(convert(kept, DType::f32), sorted.ids, sorted.ids.shape());
  return greater(placed, ops::full_like(placed, 0.5));
}

} // namespace dllm::graph
