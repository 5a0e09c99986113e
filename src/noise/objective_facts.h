#pragma once
// What a program must know of an objective: its rows, the model that it trains and the decoder of
// such models. A fact is stated in the row of the objective's table, so that no program compares
// names of objectives.

#include "base/json.h"

#include <string>

namespace dllm::noise {

// What prepared rows are, compared with the rows of the data.
enum class RowKind {
  masked,      // the same rows, with mask tokens
  replaced,    // the same rows, with other tokens
  clean,       // the same rows: no token is hidden, so every draw is the same
  two_streams, // [noised | clean]
  canvas,      // the row, then a canvas of noise
  edited,      // rows of any length
  given,       // the batch holds targets and weights already
  sampled,     // the batch holds what a decoder sampled
};

struct ObjectiveFacts {
  RowKind rows = RowKind::masked;
  bool packs = true;                   // several texts may share a row
  const char* model = "bidirectional"; // a model from scratch: bidirectional, causal or canvas
  const char* heads = "";              // option heads of such a model
  const char* policy = ""; // the one policy for its models; "": policies of masked diffusion
  const char* sample = R"({"policy": "random", "steps": 16, "temperature": 0.8})"; // of a decoder
  bool sample_at_end = false; // after a short training a sample shows what was learned
  bool likelihood = false;    // at its defaults the loss bounds -log p in nats per token
};

// {"rows", "packs", "model", "heads", "policy", "sample": {...}, "sample_at_end", "likelihood"}
Json to_json(const ObjectiveFacts& facts);

} // namespace dllm::noise
