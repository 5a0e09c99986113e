#pragma once
// Drawing one id from a row of logits: temperature, top-k, top-p, then the inverse distribution
// function.

#include <cstdint>
#include <vector>

namespace dllm::cpu {

struct DrawRequest {
  float temperature = 0;        // <= 0: the caller's argmax
  int32_t top_k = 0;            // 0: off
  float top_p = 1;              // >= 1: off
  float uniform = 0;            // in [0, 1)
  const float* noise = nullptr; // (vocab): the largest logit / temperature + noise is drawn instead
  bool nucleus_first = false;   // top_p before top_k
};

// logits (vocab), -infinity: never drawn. weights (vocab) and ids (vocab) are work space.
// REQUIRES: temperature > 0, maximum is the largest logit and finite.
int32_t draw(const DrawRequest& request, const float* logits, int64_t vocab, float maximum,
             float* weights, int32_t* ids);

// What temperature and filters leave of a row.
struct ShapedRow {
  float prob = 0;    // of `token`
  float margin = 0;  // largest probability less the second
  float entropy = 0; // nats
};
// Of the distribution a draw is made from; temperature <= 0 counts as 1. REQUIRES as draw.
ShapedRow shaped_row(const DrawRequest& request, const float* logits, int64_t vocab, float maximum,
                     int32_t token, float* weights, int32_t* ids);

// The first `count` ids of logits in the order (larger first, lower id first), into ids[0..];
// returns their number (ids of logit -infinity do not count). ids has room for vocab numbers.
int64_t best_ids(const float* logits, int64_t vocab, int64_t count, int32_t* ids);

} // namespace dllm::cpu
