#pragma once
// Soft inputs: a position's embedding as a mixture of several tokens and the mask (soft parallel
// decoding; DMax).

#include "model/builder.h"

namespace dllm::model {

struct EmbeddingMix {
  graph::Value hard;    // f32(batch, seq, hidden): embeddings of the tokens themselves
  graph::Value ids;     // i32(batch, seq, width)
  graph::Value weights; // f32(batch, seq, width)
  graph::Value on;      // u8(batch, seq): 0: the hard embedding
};

// v = sum of w_k E(id_k) + r m with m = E(mask) and r = max(0, 1 - sum w_k), then v times
// (sum of w_k |E(id_k)| + r |m|) / (|v| + 1e-6). REQUIRES: the model has a mask token.
graph::Value embedding_mix(Builder& builder, const EmbeddingMix& mix);

} // namespace dllm::model
