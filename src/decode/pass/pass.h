#pragma once
// One forward pass: what a request needs of it and gets back, predictions as arrays, and what makes two passes the same
// program.

#include "base/error.h"
#include "decode/pass/settings.h"
#include "decode/request/request.h"
#include "graph/graph.h"
#include "model/config.h"
#include "model/layers/state.h"
#include "model/model.h"
#include "model/part.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// Tokens mixed into the input of one position in place of its own (soft parallel decoding, DMax): sum of weights[k] E(ids[k]) + rest E(mask), rest = max(0, 1 - sum of
// weights), rescaled to the same mix of the norms.
struct SoftInput {
  int64_t position = 0;
  std::vector<int32_t> ids; // PredictionNeeds::soft_width of them
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
  // Parts of the model that the pass reads; nothing: the base and all its adapters.
  std::optional<model::PartList> parts;
  // The last places of the window hold these positions, each attending to the places before it and its own; RoPE
  // turns by the position. Empty: place and position are the same. Under a causal span, without left_out.
  std::vector<int64_t> order;
  // Positions from here to the window's end attend to all of them, whatever the span says; -1: none do.
  int64_t together = -1;
  int shift = -1;         // instead of the decoder's; -1: that one
  float temperature = -1; // instead of the request's; negative: that one
  // With PredictionNeeds::conditions: Prediction::mean_embedding of a step before, one behind the
  // other for each of `positions`; empty: none.
  std::vector<float> conditioning;
  std::vector<int64_t> positions; // whose predictions are wanted, inside the window, ascending
};

// What the heads of an edit flow say of a position (model/edit_heads.h); its substitute is the token of the prediction.
struct EditPrediction {
  int32_t insert = 0; // the token to its right
  float insert_probability = 0;
  float rates[3] = {0, 0, 0}; // substitute, delete, insert
};

// What the model says about one position (graph::token_statistics).
struct Prediction {
  int64_t position = 0;
  int32_t token = 0;     // the draw: at temperature 0 the likeliest token
  float probability = 0; // of that token, at temperature 1 without filters
  int32_t argmax = 0;
  float max_probability = 0;
  float entropy = 0; // nats, at temperature 1 without filters
  // Of the distribution a draw is made from, after temperature and filters; only with
  // PredictionNeeds::shaped.
  float shaped_probability = 0, shaped_margin = 0, shaped_entropy = 0;
  std::vector<int32_t> top_ids; // the PredictionNeeds::top likeliest tokens
  std::vector<float> top_probs;
  // Of the token to its left under the distribution of max_probability; 0 where there is none or it
  // is never predicted; only with PredictionNeeds::looks_left.
  float left_probability = 0;
  EditPrediction edit; // only with PredictionNeeds::edits
  // What the embedding of a draw is on average, before filters; only with PredictionNeeds::conditions.
  std::vector<float> mean_embedding; // (hidden)
};

// The cache of a request for its session.
struct CacheView {
  // K and V of so many leading positions are final: by an earlier PassRequest::final_end, or found of
  // a request with the same beginning.
  int64_t final_end = 0;
  // Changes whenever contents were lost; approximate caches fill themselves anew then.
  uint64_t generation = 0;
};

// All numbers of a prediction as one line of i32 (f32 by their bits), so that whatever a program computes of a position comes
// back as one array; and predictions that are none: the logits are not finite, or every token is banned. The request
// fails then and decides nothing.

struct PredictionColumns {
  static constexpr int64_t draw = 0, argmax = 1, draw_prob = 2, max_prob = 3, entropy = 4;
  int64_t shaped; // probability, margin, entropy; -1: not there
  int64_t top, top_ids, top_probs;
  int64_t edit; // insert, its probability, rates; -1: not there
  int64_t count;

  explicit PredictionColumns(const PredictionNeeds& needs)
      : shaped(needs.shaped ? 5 : -1), top(needs.top), top_ids(needs.shaped ? 8 : 5),
        top_probs(top_ids + top), edit(needs.edits ? top_probs + top : -1),
        count(top_probs + top + (needs.edits ? 5 : 0)) {}
};

// As Prediction, any shape, the same for all but the last two.
struct PredictionValues {
  graph::Value token, argmax;                                     // i32
  graph::Value probability, max_probability, entropy;             // f32
  graph::Value shaped_probability, shaped_margin, shaped_entropy; // f32
  graph::Value top_ids, top_probs;                                // with one more axis: top
};

// i32(places, columns.count + those of `more`, which are i32 or f32 of the same shape; with columns.edit the first of
// them are those columns).
graph::Value prediction_lines(const PredictionValues& predicted, const PredictionColumns& columns,
                              const std::vector<graph::Value>& more = {});
// The likeliest token has a probability, the entropy is finite.
bool is_finite(const Prediction& prediction);
Prediction prediction_of(std::span<const int32_t> line, const PredictionColumns& columns,
                         int64_t position);

// For the prediction of a position that is not finite. banned (vocab), empty: nothing is. cause: names
// the first operation that made NaN or infinity; "" or an empty function where that is not known.
Error not_finite(int64_t position, std::span<const uint8_t> banned,
                 const std::function<std::string()>& cause = {});

// What makes two passes the same program; everything else is data.

// One request in a pass.
struct PassRow {
  const Request* request;
  const PassRequest* pass;
  int64_t cache_row = -1; // in the decode state; -1: not cached
};

struct PassShape {
  int64_t rows, window; // positions
  int64_t capacity;     // of the positions whose predictions are wanted; 0: none are
  int64_t keys;         // of attention in a cached pass; 0: not cached
  int64_t cache_rows;   // of one layer in the state's buffers
  bool guided, soft;
  model::PartList parts; // that the pass reads
  int64_t saved_rows =
      0; // requests with snapshots in the state; 0: not cached, or the model has none
  PredictionNeeds needs;
  bool bans = false, defers = false; // tokens (PassSettings)
  bool noise = false;                // of the requests' source of random numbers

  void set(const PassSettings& settings);

  // A cached pass writes a state of so many rows and positions.
  model::StateSize state_size() const {
    return {saved_rows > 0 ? saved_rows : 1, saved_rows > 0 ? cache_rows / saved_rows : cache_rows};
  }
  // A guided pass holds every row twice.
  int64_t all_rows() const { return guided ? 2 * rows : rows; }
  int64_t positions() const { return all_rows() * window; }
  friend bool operator==(const PassShape&, const PassShape&) = default;
};

// The next of 1, 2, 3, 4, 6, 8, 12, 16, ... steps: at most half of a program is padding.
int64_t round_up(int64_t count, int64_t step);

// What sizes are rounded up by so that passes share programs, in positions that the engine computes in the same time.
struct Rounding {
  // Compiling one more program. Sizes with more padding than this are left exact, others are rungs (round_up).
  double compile = std::numeric_limits<double>::infinity();
  // A launch, besides its positions: reading the weights, the trip to the engine.
  int64_t launch = 256;
};
// Of passes of this model on its engine.
Rounding rounding_of(const model::Model& model);

// Positions of a head that predicts at least so many.
int64_t head_capacity(int64_t positions);

// Of the cache that cached rows lie in, the part of one rank.
struct CacheShape {
  int64_t rows = 0, capacity = 0;
  int64_t saved_rows = 0; // 0 where the model saves no snapshots
};
// Of a pass over these rows, capacity 0. least_rows: as if there were at least so many, so that passes over any of a
// batch's requests share a program; less than that where the padding would be large. count: rows of one rank; -1: all.
PassShape pass_shape(const model::ModelConfig& config, std::span<const PassRow> rows,
                     const CacheShape& cache, int64_t least_rows = 0, const Rounding& rounding = {},
                     int64_t count = -1);

// Every row of a program is padded to its longest window. So rows of one pass (of one kind) with windows of unlike
// length run as several programs, short windows first: indices of the rows of each, ascending. All in one while that
// computes few positions more, so that an ordinary batch is one launch.
std::vector<std::vector<size_t>> window_groups(std::span<const PassRow> rows,
                                               const Rounding& rounding = {});

} // namespace dllm::decode
