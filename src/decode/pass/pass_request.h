#pragma once
// What one request needs of a forward pass, and what it gets back.

#include <cstdint>
#include <vector>

namespace dllm::decode {

// Tokens mixed into the input of one position in place of its own (soft parallel decoding, DMax): sum of weights[k] E(ids[k]) + rest E(mask), rest = max(0, 1 - sum of
// weights), rescaled to the same mix of the norms.
struct SoftInput {
  int64_t position = 0;
  std::vector<int32_t> ids; // Policy::soft_width() of them
  std::vector<float> weights;
};

enum class PassKind : uint8_t {
  step,    // denoises
  prefill, // fills the cache with given tokens before the first step of a block
  commit   // replaces the cache's contents for a decided block by those of its final tokens
};

// One pass over the window [begin, end) of the canvas. An empty window costs no pass.
struct PassRequest {
  PassKind kind = PassKind::step;
  int64_t begin = 0, end = 0;
  // K and V of positions outside the window come from the request's cache, those inside are written
  // into it. false: begin is 0 and nothing is kept.
  bool cached = false;
  // After this pass K and V of [0, final_end) belong to tokens that will not change and saw only
  // such tokens. The cache may hand them to a request with the same beginning.
  int64_t final_end = 0;
  uint64_t generation = 0;  // CacheView::generation this was made for
  int64_t span_end = -1;    // no position attends beyond; -1: the end of the canvas
  double time = 1;          // noise level in (0, 1], for time-conditioned models
  std::vector<int32_t> ids; // (end - begin) instead of the canvas; empty: the canvas
  // Second canvas (end - begin) of classifier-free guidance, empty: none. Logits become
  // u + (guidance + 1) (c - u). Not with a cache.
  std::vector<int32_t> unconditional;
  float guidance = 0;
  // Positions removed from the window, ascending: masked out as keys, and
  // those behind them move up. Not with a cache.
  std::vector<int64_t> left_out;
  std::vector<SoftInput> soft;
  std::vector<int64_t> positions; // whose predictions are wanted, inside the window, ascending
};

// What the model says about one position (graph::token_statistics).
struct Prediction {
  int64_t position = 0;
  int32_t token = 0;     // the draw: at temperature 0 the likeliest token
  float probability = 0; // of that token, at temperature 1 without filters
  int32_t argmax = 0;
  float max_probability = 0;
  float entropy = 0; // nats, at temperature 1 without filters
  // Of the distribution a draw is made from, after temperature and filters; only for policies with
  // Policy::shaped().
  float shaped_probability = 0, shaped_margin = 0, shaped_entropy = 0;
  std::vector<int32_t> top_ids; // the Policy::top() likeliest tokens
  std::vector<float> top_probs;
};

// The cache of a request for its session.
struct CacheView {
  // K and V of so many leading positions are final: by an earlier PassRequest::final_end, or found of
  // a request with the same beginning.
  int64_t final_end = 0;
  // Changes whenever contents were lost; approximate caches fill themselves anew then.
  uint64_t generation = 0;
};

} // namespace dllm::decode
