// top_k keeps the k likeliest tokens. Of equal logits the lower id comes first.

#include "graph/filters/order.h"
#include "graph/filters/table.h"
#include "graph/ops.h"
#include "graph/ops/build.h"

#include <algorithm>

namespace dllm::graph {
namespace {

using namespace ops;

void keep_top_k(DrawRow& row, double setting) {
  const auto most = static_cast<int64_t>(setting);
  if (row.count < 0) {
    row.count = best_ids(row.logits, row.vocab, most, row.ids);
    row.best_first = true;
    return;
  }
  if (row.count <= most) return;
  if (!row.best_first) {
    std::partial_sort(row.ids, row.ids + most, row.ids + row.count, BetterId{row.logits});
    std::sort(row.ids, row.ids + most);
  }
  row.count = most;
}

Value top_k_graph(const FilteredRows& rows, Value setting) {
  const SortedRows sorted = sorted_rows(rows);
  const Value limit = reshape(convert(setting, DType::f32), {setting.dim(0), 1});
  return by_id(sorted, logical_and(sorted.kept, less(sorted.rank, limit)));
}

} // namespace

DrawFilter filter_files::top_k() {
  return {option_i64("top_k", 0, 0, 1 << 24, "Draw among this number of likeliest tokens; 0: all."),
          keep_top_k, top_k_graph, true};
}

} // namespace dllm::graph
