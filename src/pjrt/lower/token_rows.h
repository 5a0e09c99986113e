#pragma once
// What the files of token_statistics share: what is asked of rows of logits, and small reductions
// over the vocabulary.

#include "pjrt/lower/loops.h"

#include <vector>

namespace dllm::pjrt {

// Per row unless said otherwise.
struct DrawRequest {
  graph::Value temperature, top_k, top_p, uniform;
  graph::Value noise; // f32(rows, vocab) or undefined
  bool nucleus_first = false, shaped = false;
};

// The ids a draw may take: those before a place in the order (z descending, id ascending).
struct Cut {
  graph::Value key; // i32(rows): of the last id
  graph::Value id;  // i32(rows): the last id among equals
};
// Orders like the numbers themselves, -0 like 0. i32, same shape.
graph::Value order_key(graph::Value z);
graph::Value before_cut(graph::Value key, const Cut& cut); // u8(rows, vocab)

// u8(rows, vocab). z = logits / temperature, -infinity: never drawn; weight = exp(z - largest).
// active: u8(rows), rows whose answer is used.
graph::Value kept_ids(const DrawRequest& ask, graph::Value z, graph::Value weight,
                      graph::Value active);

struct Drawn {
  graph::Value id;                           // i32(rows)
  graph::Value shaped_prob, margin, entropy; // f32(rows); 0 unless asked for
};
// best: the argmax, drawn where temperature <= 0.
Drawn draw(const DrawRequest& ask, graph::Value logits, graph::Value best, graph::Value active);

// The first id whose running weight exceeds the limit, else the last of positive weight, else 0.
// weight f32(rows, vocab) >= 0, limit f32(rows).
graph::Value first_beyond(graph::Value weight, graph::Value limit);
// The same with a share f32(rows) of the row's sum as limit.
graph::Value invert(graph::Value weight, graph::Value share);

graph::Value at_id(graph::Value x, graph::Value id); // (rows, vocab), i32(rows) -> (rows)

} // namespace dllm::pjrt
