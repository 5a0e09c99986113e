#pragma once
// Diffusion over the embeddings of tokens (Dieleman et al. 2022, CDCD): the graph that the loss and
// the decoder share. The array of a text has the normed embedding of each token, and a part "inlet"
// makes the base's input from it. The base predicts tokens, and the expected embedding under its
// distribution is the array without noise.

#include "base/json.h"
#include "model/network/builder.h"

namespace dllm::noise {

inline constexpr const char* kInletPart = "inlet";

// Returns the config of the inlet of a base: a tower without layers.
Json inlet_config(const model::ModelConfig& base);

// Returns the embedding table of the base, f32(vocab, hidden). Every row has the mean square 1.
graph::Value normed_embeddings(model::Builder& base);

struct NoisyEmbeddings {
  graph::Value numbers;  // f32(batch, seq, hidden)
  graph::Value previous; // f32(batch, seq, hidden): an earlier estimate; zeros: none
  graph::Value clean;    // f32(batch, seq, hidden): what given positions have in place of both
  graph::Value given;    // f32(batch, seq, 1): 1 for given positions
  graph::Value levels;   // f32(batch): times in [0, 1]
};
// Returns the input of the base's first layer, f32(batch, seq, hidden).
graph::Value inlet_stream(model::Builder& base, const NoisyEmbeddings& in);

// Returns the mean of the table's rows under softmax(logits): f32(n, vocab) -> f32(n, hidden).
graph::Value expected_embeddings(graph::Value table, graph::Value logits);

} // namespace dllm::noise
