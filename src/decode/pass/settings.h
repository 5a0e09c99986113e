#pragma once
// PassSettings are the settings of a request's passes beyond its canvas: what its policy needs
// predicted, and which tokens may be drawn.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

namespace dllm::decode {

// What a policy needs of a forward pass and its predictions. All passes of a request share it.
struct PredictionNeeds {
  bool mask = true;             // open positions hold the mask token, so the model must have one
  int64_t top = 1;              // number of likeliest tokens that a policy reads
  int64_t kept = 0;             // number of those that the request keeps (option top_logprobs)
  bool shaped = false;          // predictions have Prediction::shaped_*
  bool nucleus_first = false;   // top_p acts before the other filters
  int64_t soft_width = 0;       // most tokens of a SoftInput; 0: no position has one
  bool bf16_embeddings = false; // embeddings are rounded where they are read and mixed
  bool conditions = false;      // PassRequest::conditioning and Prediction::mean_embedding are used
  bool edits = false;           // predictions come from the heads of edits
  bool looks_left = false;      // predictions have Prediction::left_probability

  int64_t listed() const { return std::max(top, kept); } // by a program
  friend auto operator<=>(const PredictionNeeds&, const PredictionNeeds&) = default;
};

// Settings of the passes of a method. Requests share a pass only if they share this object.
struct PassSettings {
  int shift = 0;
  std::vector<uint8_t> banned; // (vocab): 1 for tokens that are never drawn; empty: none
  // (vocab): 1 for tokens to decide last; empty: none. Such a token gets probability 0, and the
  // probabilities of the others are computed without it. Draws ignore this mask.
  std::vector<uint8_t> deferred;
  std::vector<float> logit_bias; // (vocab): added to logits; empty: nothing is
  PredictionNeeds needs;

  friend bool operator==(const PassSettings&, const PassSettings&) = default;
};

} // namespace dllm::decode
