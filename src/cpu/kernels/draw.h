#pragma once
// Draws one id from a row of logits. It applies temperature, top-k and top-p, then inverts the
// distribution function.

#include <cstdint>
#include <vector>

namespace dllm::cpu {

struct DrawRequest {
  float temperature = 0;        // <= 0: the caller takes the argmax
  int32_t top_k = 0;            // 0: off
  float top_p = 1;              // >= 1: off
  float uniform = 0;            // in [0, 1)
  const float* noise = nullptr; // (vocab) or null: draw the largest logit / temperature + noise
  bool nucleus_first = false;   // top_p before top_k
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

// Writes the ids of the `count` largest logits to ids[0..] and returns their number. A larger logit
// comes first, then a lower id. Ids with logit -infinity are left out. `ids` has room for vocab
// numbers.
int64_t best_ids(const float* logits, int64_t vocab, int64_t count, int32_t* ids);

} // namespace dllm::cpu
