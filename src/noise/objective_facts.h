#pragma once
// Facts about an objective that a program needs: its rows, the model that it trains, and the
// decoder of such models. The table of objectives has a row for each, so that no program compares
// names of objectives.

#include "base/json.h"

#include <string>

namespace dllm::noise {

// The kind of prepared rows, compared with the rows of the data.
enum class RowKind {
  masked,      // the same rows, with mask tokens
  replaced,    // the same rows, with other tokens
  clean,       // the same rows; nothing is hidden, so every draw is equal
  two_streams, // [noised | clean]
  canvas,      // the row, then a canvas of noise
  edited,      // rows of other lengths
  given,       // rows that already have targets and weights
  sampled,     // rows that a decoder sampled
  vectors,     // the same rows; noise is added to vectors that are made of them
};

struct ObjectiveFacts {
  RowKind rows = RowKind::masked;
  bool packs = true; // several texts may share a row
  // The option that trains the padding after a text, which packed rows hardly have; "": none.
  const char* padding = "";
  // Shift of the loss where option shift is -1; -1: that of the model.
  int shift = -1;
  // The attention of a model from scratch is bidirectional, causal or canvas.
  const char* model = "bidirectional";
  // Option heads of such a model.
  const char* heads = "";
  // The option for the most tokens of a text, where such a model has a fixed number; "": none.
  const char* positions = "";
  // The one policy for such models; "": any policy of masked diffusion.
  const char* policy = "";
  // Options of the decoder for a sample.
  const char* sample = R"({"policy": "random", "steps": 16, "temperature": 0.8})";
  bool sample_at_end = false; // a sample after a short training shows what was learned
  bool likelihood = false;    // with default options the loss bounds -log p in nats per token
};

// Returns {"rows", "packs", "padding", "shift", "model", "heads", "positions", "policy",
// "sample": {...}, "sample_at_end", "likelihood"}.
Json to_json(const ObjectiveFacts& facts);

} // namespace dllm::noise
