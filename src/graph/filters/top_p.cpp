// top_p keeps the likeliest tokens until their probability is p, and at least one (nucleus
// sampling, Holtzman et al. 2020). The probabilities are the ones of the ids that are left.

#include "graph/filters/order.h"
#include "graph/filters/table.h"
#include "graph/ops.h"
#include "graph/ops/build.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace dllm::graph {
namespace {

using namespace ops;

constexpr int64_t kPieceIds = 512;

// Moves the best of `count` unordered ids to the front and returns their number. An id is kept if
// `before` plus the weights of all better ids is below `limit`. At least one id is kept when
// `before` is 0. Sorts only as many ids as necessary.
int64_t nucleus(const BetterId& better, const float* weights, double before, double limit,
                int32_t* ids, int64_t count) {
  const bool must_keep = before == 0;
  int64_t sorted = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i == sorted) {
      sorted = std::min(count, std::max<int64_t>(64, sorted * 4));
      std::partial_sort(ids + i, ids + sorted, ids + count, better);
    }
    if (!(before < limit) && !(must_keep && i == 0)) return i;
    before += static_cast<double>(weights[ids[i]]);
  }
  return count;
}

// Writes the nucleus of all ids that may be drawn in ascending order and returns its size.
// Ids are put into buckets of equal steps of the logit, so that only the bucket that contains the
// limit is sorted.
int64_t wide_nucleus(const DrawRow& row, float top_p) {
  const BetterId better{row.logits};
  const float maximum = row.maximum, factor = row.factor;
  const float* weights = row.weights;
  const int64_t vocab = row.vocab;
  int32_t* ids = row.ids;
  constexpr int kBuckets = 2048;
  constexpr float kPerNat = 64.0f; // 2048 buckets reach e^-32 of the largest weight
  int32_t buckets[kPieceIds];      // of one piece; an id that is not allowed gets the last bucket
  const auto fill_buckets = [&](const float* logits, int64_t size) {
    constexpr float kLast = kBuckets - 1;
    for (int64_t j = 0; j < size; ++j) {
      const float gap = (maximum - logits[j]) * factor * kPerNat;
      buckets[j] = static_cast<int32_t>(gap < kLast ? gap : kLast);
    }
  };
  std::vector<double> sums(kBuckets, 0.0);
  for (int64_t i = 0; i < vocab; i += kPieceIds) {
    const int64_t size = std::min(kPieceIds, vocab - i);
    fill_buckets(better.logits + i, size);
    for (int64_t j = 0; j < size; ++j)
      sums[static_cast<size_t>(buckets[j])] += static_cast<double>(weights[i + j]);
  }
  const double limit = static_cast<double>(top_p) * std::accumulate(sums.begin(), sums.end(), 0.0);
  double before = 0;
  int cut = 0;
  while (cut < kBuckets - 1 && before + sums[static_cast<size_t>(cut)] < limit)
    before += sums[static_cast<size_t>(cut++)];
  std::vector<int32_t> border;
  int64_t kept = 0;
  for (int64_t i = 0; i < vocab; i += kPieceIds) {
    const int64_t size = std::min(kPieceIds, vocab - i);
    fill_buckets(better.logits + i, size);
    for (int64_t j = 0; j < size; ++j) { // without a branch, which would be hard to predict
      ids[kept] = static_cast<int32_t>(i + j);
      kept += buckets[j] < cut;
      if (buckets[j] == cut && better.logits[i + j] > -std::numeric_limits<float>::infinity())
        border.push_back(static_cast<int32_t>(i + j));
    }
  }
  const int64_t more =
      nucleus(better, weights, before, limit, border.data(), static_cast<int64_t>(border.size()));
  std::sort(border.begin(), border.begin() + more);
  std::copy_n(border.begin(), more, ids + kept);
  std::inplace_merge(ids, ids + kept, ids + kept + more);
  return kept + more;
}

void keep_top_p(DrawRow& row, double setting) {
  if (row.count < 0) {
    row.count = wide_nucleus(row, static_cast<float>(setting));
    return;
  }
  double total = 0;
  for (int64_t i = 0; i < row.count; ++i) total += static_cast<double>(row.weights[row.ids[i]]);
  row.count = nucleus({row.logits}, row.weights, 0.0, setting * total, row.ids, row.count);
  row.best_first = true;
}

Value top_p_graph(const FilteredRows& rows, Value setting) {
  const SortedRows sorted = sorted_rows(rows);
  const Value none = full_like(sorted.z, 0), top = slice_axis(sorted.z, 1, 0, 1);
  const Value weight = select(sorted.kept, exp(subtract(sorted.z, top)), none);
  const Value p = divide(weight, sum(weight, {1}, true));
  const Value before = subtract(cumsum(p, 1), p);
  const Value mass = reshape(setting, {setting.dim(0), 1});
  const Value inside = logical_or(equal(sorted.rank, none), less(before, mass));
  return by_id(sorted, logical_and(sorted.kept, inside));
}

} // namespace

DrawFilter filter_files::top_p() {
  return {option_f64("top_p", 1, 0, 1,
                     "Draw among the likeliest tokens of this total probability; 1: all."),
          keep_top_p, top_p_graph, true};
}

} // namespace dllm::graph
