#pragma once
// Draws one id from a row of logits. It applies temperature and filters, then inverts the
// distribution function.

#include "graph/filters/filter.h"

#include <cstdint>
#include <span>

namespace dllm::cpu {

struct FilterOfRow {
  const graph::DrawFilter* filter;
  double setting;
};

struct DrawRequest {
  float temperature = 0;                // <= 0: the caller takes the argmax
  std::span<const FilterOfRow> filters; // those that are on, in the order in which they act
  float uniform = 0;                    // in [0, 1)
  const float* noise = nullptr; // (vocab) or null: draw the largest logit / temperature + noise
};

// Returns the drawn id. An id with logit -infinity in `logits` (vocab) is never drawn. `weights`
// (vocab) and `ids` (vocab) are work space. REQUIRES: temperature > 0, `maximum` is the largest
// logit and finite.
int32_t draw(const DrawRequest& request, const float* logits, int64_t vocab, float maximum,
             float* weights, int32_t* ids);

// Statistics of the distribution after temperature and filters.
struct ShapedRow {
  float prob = 0;    // probability of `token`
  float margin = 0;  // largest probability - second largest
  float entropy = 0; // nats
};
// Returns statistics of the distribution from which draw() draws. A temperature <= 0 counts as 1.
// REQUIRES: `maximum` is the largest logit and finite.
ShapedRow shaped_row(const DrawRequest& request, const float* logits, int64_t vocab, float maximum,
                     int32_t token, float* weights, int32_t* ids);

} // namespace dllm::cpu
