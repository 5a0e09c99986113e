#include "cpu/kernels/draw.h"

#include "cpu/kernels/rows/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace dllm::cpu {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr int64_t kPieceIds = 512;

// Orders ids by larger logit first, then by lower id first.
struct Better {
  const float* logits;
  bool operator()(int32_t a, int32_t b) const {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  }
};

int64_t allowed_ids(const float* logits, int64_t vocab, int32_t* ids) {
  int64_t count = 0;
  for (int64_t i = 0; i < vocab; ++i) {
    ids[count] = static_cast<int32_t>(i);
    count += logits[i] > kNever;
  }
  return count;
}

// Moves the best of `count` unordered ids to the front and returns their number. An id is kept if
// `before` plus the weights of all better ids is below `limit`. At least one id is kept when
// `before` is 0. Sorts only as many ids as necessary.
int64_t nucleus(const Better& better, const float* weights, double before, double limit,
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

// Writes the nucleus of all allowed ids of a vocabulary in ascending order and returns its size.
// Ids are put into buckets of equal steps of the logit, so that only the bucket that contains the
// limit is sorted.
int64_t wide_nucleus(const Better& better, const float* weights, float top_p, float maximum,
                     float factor, int64_t vocab, int32_t* ids) {
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
      if (buckets[j] == cut && better.logits[i + j] > kNever)
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

// Returns the first id whose running weight exceeds uniform * total, or the last id. `ids` is in
// ascending order.
int32_t invert(const float* weights, const int32_t* ids, int64_t count, float uniform) {
  std::vector<double> before; // the running weight before every piece
  double total = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (i % kPieceIds == 0) before.push_back(total);
    total += static_cast<double>(weights[ids[i]]);
  }
  const double limit = static_cast<double>(uniform) * total;
  const auto piece = std::upper_bound(before.begin() + 1, before.end(), limit) - 1;
  double running = *piece;
  for (int64_t i = (piece - before.begin()) * kPieceIds; i < count; ++i) {
    running += static_cast<double>(weights[ids[i]]);
    if (running > limit) return ids[i];
  }
  return ids[count - 1];
}

} // namespace

int64_t best_ids(const float* logits, int64_t vocab, int64_t count, int32_t* ids) {
  // A heap of the best ids so far, with the worst on top. Most ids need only one comparison.
  const Better better{logits};
  int64_t size = 0;
  for (int64_t i = 0; i < vocab && count > 0; ++i) {
    const int32_t id = static_cast<int32_t>(i);
    if (!(logits[i] > kNever)) continue;
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

namespace {

// Draws without filters. Sums of pieces find the piece, then the ids of that piece are tried in
// order.
int32_t draw_unfiltered(const float* logits, int64_t vocab, float factor, float maximum,
                        float uniform, float* weights) {
  constexpr int64_t kPiece = 512;
  std::vector<double> pieces;
  double total = 0;
  for (int64_t i = 0; i < vocab; i += kPiece) {
    const float sum = rows().exp_sum(logits + i, factor, maximum * factor,
                                     std::min(kPiece, vocab - i), weights + i);
    pieces.push_back(static_cast<double>(sum));
    total += pieces.back();
  }
  const double limit = static_cast<double>(uniform) * total;
  double running = 0;
  int64_t last = 0; // last id of positive weight
  for (size_t p = 0; p < pieces.size(); ++p) {
    const int64_t begin = static_cast<int64_t>(p) * kPiece, end = std::min(vocab, begin + kPiece);
    const bool here = running + pieces[p] > limit;
    double inside = running;
    for (int64_t i = begin; i < end && (here || p + 1 == pieces.size()); ++i) {
      inside += static_cast<double>(weights[i]);
      if (weights[i] > 0) last = i;
      if (inside > limit && weights[i] > 0) return static_cast<int32_t>(i);
    }
    if (here) break; // the sum of the piece was rounded up
    running += pieces[p];
  }
  return static_cast<int32_t>(last);
}

} // namespace

namespace {

bool has_filter(const DrawRequest& request, int64_t vocab) {
  return (request.top_k > 0 && request.top_k < vocab) || request.top_p < 1.0f;
}

// Writes the ids that a draw may return, in ascending order, and returns their number. `weights`
// has exp((logit - maximum) * factor) of all ids.
int64_t kept_ids(const DrawRequest& request, const float* logits, int64_t vocab, float maximum,
                 float factor, const float* weights, int32_t* ids) {
  const Better better{logits};
  const bool few = request.top_k > 0 && request.top_k < vocab, nuclear = request.top_p < 1.0f;
  int64_t count = 0;
  if (nuclear && (!few || request.nucleus_first)) {
    count = wide_nucleus(better, weights, request.top_p, maximum, factor, vocab, ids);
    if (few && count > request.top_k) {
      std::partial_sort(ids, ids + request.top_k, ids + count, better);
      count = request.top_k;
      std::sort(ids, ids + count);
    }
    return count;
  }
  if (!few) return allowed_ids(logits, vocab, ids);
  count = best_ids(logits, vocab, request.top_k, ids);
  if (nuclear) {
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += static_cast<double>(weights[ids[i]]);
    count = nucleus(better, weights, 0.0, static_cast<double>(request.top_p) * total, ids, count);
  }
  std::sort(ids, ids + count);
  return count;
}

int32_t noisiest(const float* logits, float factor, const float* noise, const int32_t* ids,
                 int64_t count) {
  int32_t best = ids[0];
  const auto score = [&](int32_t id) { return logits[id] * factor + noise[id]; };
  for (int64_t i = 1; i < count; ++i)
    if (score(ids[i]) > score(best)) best = ids[i];
  return best;
}

} // namespace

int32_t draw(const DrawRequest& request, const float* logits, int64_t vocab, float maximum,
             float* weights, int32_t* ids) {
  const float factor = 1.0f / request.temperature;
  if (!has_filter(request, vocab) && request.noise == nullptr)
    return draw_unfiltered(logits, vocab, factor, maximum, request.uniform, weights);
  rows().exp_sum(logits, factor, maximum * factor, vocab, weights);
  const int64_t count = kept_ids(request, logits, vocab, maximum, factor, weights, ids);
  return request.noise != nullptr ? noisiest(logits, factor, request.noise, ids, count)
                                  : invert(weights, ids, count, request.uniform);
}

ShapedRow shaped_row(const DrawRequest& request, const float* logits, int64_t vocab, float maximum,
                     int32_t token, float* weights, int32_t* ids) {
  const float factor = request.temperature > 0.0f ? 1.0f / request.temperature : 1.0f;
  rows().exp_sum(logits, factor, maximum * factor, vocab, weights);
  const int64_t count = kept_ids(request, logits, vocab, maximum, factor, weights, ids);
  double total = 0, products = 0;
  float first = 0, second = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float weight = weights[ids[i]];
    total += static_cast<double>(weight);
    // p log p = p (z - maximum - log total), where z is the logit / temperature.
    products += static_cast<double>(weight) *
                (weight > 0 ? static_cast<double>((logits[ids[i]] - maximum) * factor) : 0.0);
    if (weight > first) {
      second = first;
      first = weight;
    } else if (weight > second) {
      second = weight;
    }
  }
  ShapedRow row;
  row.prob = static_cast<float>(static_cast<double>(weights[token]) / total);
  row.margin = static_cast<float>(static_cast<double>(first - second) / total);
  row.entropy = static_cast<float>(std::log(total) - products / total);
  return row;
}

} // namespace dllm::cpu
