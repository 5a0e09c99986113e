#pragma once
// All numbers of a prediction as one line of i32 (f32 by their bits), so that whatever a program
// says comes back as one array.

#include "decode/ask.h"
#include "graph/graph.h"

#include <cstdint>
#include <span>

namespace dllm::decode {

struct PredictionColumns {
  static constexpr int64_t draw = 0, argmax = 1, draw_prob = 2, max_prob = 3, entropy = 4;
  int64_t shaped; // probability, margin, entropy; -1: not asked for
  int64_t top, top_ids, top_probs, count;

  PredictionColumns(int64_t top_count, bool has_shaped)
      : shaped(has_shaped ? 5 : -1), top(top_count), top_ids(has_shaped ? 8 : 5),
        top_probs(top_ids + top), count(top_probs + top) {}
};

// As Prediction, any shape, the same for all but the last two.
struct PredictionValues {
  graph::Value token, argmax;                                     // i32
  graph::Value probability, max_probability, entropy;             // f32
  graph::Value shaped_probability, shaped_margin, shaped_entropy; // f32
  graph::Value top_ids, top_probs;                                // with one more axis: top
};

// i32(places, columns.count + those of `more`, which are i32 or f32 of the same shape).
graph::Value prediction_lines(const PredictionValues& said, const PredictionColumns& columns,
                              const std::vector<graph::Value>& more = {});
// The likeliest token has a probability, the entropy is finite.
bool is_finite(const Prediction& prediction);
Prediction prediction_of(std::span<const int32_t> line, const PredictionColumns& columns,
                         int64_t position);

} // namespace dllm::decode
