// min_p keeps the tokens that are at least this share as probable as the likeliest token (Nguyen et
// al. 2024, arXiv 2407.01082).

#include "graph/filters/table.h"
#include "graph/ops.h"

namespace dllm::graph {
namespace {

void keep_min_p(DrawRow& row, double setting) {
  const auto least = static_cast<float>(setting);
  row.keep_if([&](int32_t id) { // the weight of the likeliest may be rounded
    return row.weights[id] >= least || row.logits[id] == row.maximum;
  });
}

Value min_p_graph(const FilteredRows& rows, Value setting) {
  return greater_equal(rows.weight, reshape(setting, {setting.dim(0), 1}));
}

} // namespace

DrawFilter filter_files::min_p() {
  return {option_f64("min_p", 0, 0, 1,
                     "Draw among the tokens of at least this share of the likeliest token's "
                     "probability; 0: all."),
          keep_min_p, min_p_graph};
}

} // namespace dllm::graph
