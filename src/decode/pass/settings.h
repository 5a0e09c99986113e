#pragma once
// What the passes of a request compute beyond its canvas: what its policy needs predicted, and which tokens take part.

#include <compare>
#include <cstdint>
#include <vector>

namespace dllm::decode {

// What a policy needs of a forward pass and its predictions; the same for all passes of a request.
struct PredictionNeeds {
  bool mask = true;           // open positions hold the mask token; a model without one is refused
  int64_t top = 1;            // likeliest tokens that a prediction lists
  bool shaped = false;        // Prediction::shaped_*
  bool nucleus_first = false; // top_p before top_k
  int64_t soft_width = 0;     // most tokens of a SoftInput; 0: no position has one
  bool bf16_embeddings = false; // embeddings are rounded where they are read and mixed
  bool conditions = false;      // PassRequest::conditioning, Prediction::mean_embedding
  bool edits = false;           // predictions come from the heads of edits
  bool looks_left = false;      // Prediction::left_probability

  friend auto operator<=>(const PredictionNeeds&, const PredictionNeeds&) = default;
};

// Requests with one such object may share a pass.
struct PassSettings {
  int shift = 0;
  std::vector<uint8_t> banned; // (vocab); empty: nothing is
  // (vocab); empty: nothing is. Probability 0, and those of the others as if banned: a draw does
  // not know it.
  std::vector<uint8_t> deferred;
  PredictionNeeds needs;

  friend bool operator==(const PassSettings&, const PassSettings&) = default;
};

} // namespace dllm::decode
