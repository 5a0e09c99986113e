#include "cpu/kernels/draw.h"

#include "cpu/kernels/rows/rows.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dllm::cpu {
namespace {

constexpr int64_t kPieceIds = 512;

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

// Writes the ids that a draw may return, in ascending order, and returns their number. `weights`
// has exp((logit - maximum) * factor) of all ids.
int64_t kept_ids(const DrawRequest& request, const float* logits, int64_t vocab, float maximum,
                 float factor, const float* weights, int32_t* ids) {
  graph::DrawRow row{logits, weights, vocab, maximum, factor, ids};
  for (const FilterOfRow& on : request.filters) on.filter->keep(row, on.setting);
  row.list();
  if (row.best_first) std::sort(ids, ids + row.count);
  return row.count;
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
  if (request.filters.empty() && request.noise == nullptr)
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
