#pragma once
// This header describes a forward pass: what a request needs of it, and the predictions that it
// returns. The shape of a pass decides whether two passes are the same program.

#include "base/error.h"
#include "decode/pass/settings.h"
#include "decode/request/constraint.h"
#include "decode/request/request.h"
#include "graph/filters/filter.h"
#include "graph/graph.h"
#include "model/config.h"
#include "model/layers/state.h"
#include "model/model.h"
#include "model/params/part.h"

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dllm::decode {

// A mixture of tokens as the input of one position (soft parallel decoding, DMax). With
// r = max(0, 1 - sum of weights[k]) the embedding of the position is
//   sum of weights[k] E(ids[k]) + r E(mask),
// scaled to the same weighted mean of the norms of these embeddings.
struct SoftInput {
  int64_t position = 0;
  std::vector<int32_t> ids; // PredictionNeeds::soft_width of them
  std::vector<float> weights;
};

enum class PassKind : uint8_t {
  step,    // predicts positions for a denoising step
  prefill, // fills the cache with given tokens before the first step of a block
  commit   // overwrites the cache of a decided block with the K and V of its final tokens
};

// What a request needs of the next pass over the window [begin, end) of its canvas. An empty window
// needs no pass.
struct PassRequest {
  PassKind kind = PassKind::step;
  int64_t begin = 0, end = 0;
  // true: the pass reads K and V of other positions from the request's cache, and writes K and V of
  // the window into it. false: begin is 0 and the pass keeps nothing.
  bool cached = false;
  // After this pass K and V of [0, final_end) are final: their tokens will not change and attended
  // only to such tokens. The cache may reuse them for a request with the same beginning.
  int64_t final_end = 0;
  uint64_t generation = 0;  // CacheView::generation that this pass was made for
  int64_t span_end = -1;    // positions attend at most to [0, span_end); -1: to the whole canvas
  double time = 1;          // noise level in (0, 1], for time-conditioned models
  std::vector<int32_t> ids; // (end - begin) tokens in place of the canvas; empty: the canvas
  // The second canvas (end - begin) of classifier-free guidance; empty: no guidance. With logits c
  // of the canvas and u of the second one, the pass uses u + (guidance + 1) (c - u). Not with a
  // cache.
  std::vector<int32_t> unconditional;
  float guidance = 0;
  // Positions to leave out of the window, ascending. No position attends to them, and later
  // positions are renumbered. Not with a cache.
  std::vector<int64_t> left_out;
  std::vector<SoftInput> soft;
  // Parts of the model that the pass reads; not set: the base and all its adapters.
  std::optional<model::PartList> parts;
  // The positions that the last places of the window hold. Each attends to the places before it and
  // to itself, and RoPE turns by the position. Empty: place and position are the same. Only under a
  // causal span and without left_out.
  std::vector<int64_t> order;
  // Positions in [together, end) attend to all positions before `end`, whatever the span is; -1:
  // none do.
  int64_t together = -1;
  int shift = -1;         // replaces PassSettings::shift; -1: not set
  float temperature = -1; // replaces the request's temperature; negative: not set
  // With PredictionNeeds::conditions: Prediction::mean_embedding of the step before for each of
  // `positions`, one after the other; empty: none.
  std::vector<float> conditioning;
  std::vector<int64_t> positions; // positions to predict, inside the window, ascending
};

// The output of the heads of an edit flow at one position (model/network/edit_heads.h). The token
// to substitute is the token of the prediction.
struct EditPrediction {
  int32_t insert = 0; // the token to insert to the right of the position
  float insert_probability = 0;
  float rates[3] = {0, 0, 0}; // of substitute, delete, insert
};

// A token and its probability, at temperature 1 without filters.
struct TokenShare {
  int32_t id = 0;
  float probability = 0;
};

// The statistics of the model's distribution at one position (graph::token_statistics).
struct Prediction {
  int64_t position = 0;
  int32_t token = 0;     // the drawn token; at temperature 0 the likeliest one
  float probability = 0; // of `token`, at temperature 1 without filters
  int32_t argmax = 0;
  float max_probability = 0;
  float entropy = 0; // nats, at temperature 1 without filters
  // Statistics of the distribution that the token is drawn from, after temperature and filters.
  // Only with PredictionNeeds::shaped.
  float shaped_probability = 0, shaped_margin = 0, shaped_entropy = 0;
  std::vector<int32_t> top_ids; // the PredictionNeeds::top likeliest tokens
  std::vector<float> top_probs;
  std::vector<TokenShare> kept; // the PredictionNeeds::kept likeliest tokens
  // Probability of the token to the left of the position, under the distribution of
  // max_probability. 0 if there is no such token or it is banned. Only with
  // PredictionNeeds::looks_left.
  float left_probability = 0;
  EditPrediction edit; // only with PredictionNeeds::edits
  // (hidden): the mean embedding of a draw, after temperature and before filters. Only with
  // PredictionNeeds::conditions.
  std::vector<float> mean_embedding;
};

// What a session may read of its request's cache.
struct CacheView {
  // K and V of [0, final_end) are final, by an earlier PassRequest::final_end or from a request
  // with the same beginning.
  int64_t final_end = 0;
  // Changes whenever contents are lost. An approximate cache must then be filled again.
  uint64_t generation = 0;

  friend bool operator==(const CacheView&, const CacheView&) = default;
};

// The columns of a prediction that is stored as one line of i32. f32 numbers are stored by their
// bits. So a program returns all predictions as one array. An index is -1 if the columns are not
// there.
struct PredictionColumns {
  static constexpr int64_t draw = 0, argmax = 1, draw_prob = 2, max_prob = 3, entropy = 4;
  int64_t shaped;    // probability, margin, entropy
  int64_t top, kept; // numbers of likeliest tokens, of which the lines list the most
  int64_t listed, top_ids, top_probs;
  int64_t edit; // insert, its probability, three rates
  int64_t count;

  explicit PredictionColumns(const PredictionNeeds& needs)
      : shaped(needs.shaped ? 5 : -1), top(needs.top), kept(needs.kept), listed(needs.listed()),
        top_ids(needs.shaped ? 8 : 5), top_probs(top_ids + listed),
        edit(needs.edits ? top_probs + listed : -1),
        count(top_probs + listed + (needs.edits ? 5 : 0)) {}
};

// The values of Prediction as arrays. All have the same shape, except the last two.
struct PredictionValues {
  graph::Value token, argmax;                         // i32
  graph::Value probability, max_probability, entropy; // f32
  graph::Value shaped_probability;                    // f32
  graph::Value shaped_margin, shaped_entropy;         // f32
  graph::Value top_ids, top_probs;                    // one more axis of size top

  // Returns all values, in the order above.
  std::array<graph::Value*, 10> all() {
    return {&token,           &argmax,         &probability,
            &max_probability, &entropy,        &shaped_probability,
            &shaped_margin,   &shaped_entropy, &top_ids,
            &top_probs};
  }
};

// Returns the lines i32(places, columns.count + number of extra columns). `more` are extra columns,
// i32 or f32 of the same shape. With columns.edit the first of `more` are the columns of edits.
graph::Value prediction_lines(const PredictionValues& predicted, const PredictionColumns& columns,
                              const std::vector<graph::Value>& more = {});
// Returns whether the entropy, probabilities and rates are finite and max_probability is above 0. A
// request fails and decides nothing if its logits are not finite or every token is banned.
bool is_finite(const Prediction& prediction);
// Returns the prediction of `position` from its line.
Prediction prediction_of(std::span<const int32_t> line, const PredictionColumns& columns,
                         int64_t position);

// Returns the error of a prediction that is not finite. banned: (vocab), empty if no token is
// banned. cause: returns the first operation that made NaN or infinity, "" if it is unknown. May be
// empty.
Error not_finite(int64_t position, std::span<const uint8_t> banned,
                 const std::function<std::string()>& cause = {});

// One request in a pass.
struct PassRow {
  const Request* request;
  const PassRequest* pass;
  int64_t cache_row = -1; // row of the decode state; -1: not cached
  // The bans of each position that is predicted, in place of PassSettings::banned. Empty:
  // PassSettings::banned holds.
  std::span<const BanRow> banned = {};
};

// The parts of the model that a program reads. Programs of equal layouts are one program: it takes
// the buffers of the parts as its arguments.
struct PassParts {
  model::PartList list;
  std::string layout; // PartLayouts::of the list
  // Each row has the base and at most one of the adapters of the list.
  bool is_by_row = false;
  // Parts of rows that name none.
  model::PartList unnamed = {};

  // Returns the place in the list of the adapter of a row; 0: it has none. REQUIRES: is_by_row.
  int32_t slot(const PassRequest& pass) const;

  friend bool operator==(const PassParts& a, const PassParts& b) { return a.layout == b.layout; }
};

// The key of a compiled pass: what makes two passes the same program. Everything else is data.
struct PassShape {
  int64_t rows, window; // window: positions of a row
  int64_t capacity;     // most predicted positions of the pass; 0: no position is predicted
  int64_t keys;         // keys that attention reads in a cached pass; 0: not cached
  int64_t cache_rows;   // rows of positions of one layer in the state's buffers
  bool guided, soft;
  PassParts parts;
  // Requests with snapshots in the state; 0: the pass is not cached or the model has none.
  int64_t saved_rows = 0;
  PredictionNeeds needs;
  bool bans = false, defers = false; // PassSettings has banned or deferred tokens
  bool own_bans = false;             // PassRow::banned of a row is set
  bool biased = false;               // PassSettings::logit_bias is set
  bool noise = false;                // the requests' random source has noise
  graph::FilterSet filters = 0;      // filters of draws

  void set(const PassSettings& settings);

  // Returns the size of the state that a cached pass writes.
  model::StateSize state_size() const {
    return {saved_rows > 0 ? saved_rows : 1, saved_rows > 0 ? cache_rows / saved_rows : cache_rows};
  }
  // Returns the number of rows of the program: a guided pass computes every row twice.
  int64_t all_rows() const { return guided ? 2 * rows : rows; }
  int64_t positions() const { return all_rows() * window; }
  friend bool operator==(const PassShape&, const PassShape&) = default;
};

// Rounds `count` up to the next of 1, 2, 3, 4, 6, 8, 12, 16, ... times `step`. At most half of a
// program is padding.
int64_t round_up(int64_t count, int64_t step);

// How sizes are rounded up so that passes share programs. Costs are in positions that the engine
// computes in the same time.
struct Rounding {
  // Cost of compiling one more program. A size with more padding than this is not rounded up.
  double compile = std::numeric_limits<double>::infinity();
  // Cost of a launch apart from its positions: reading the weights and the trip to the engine.
  int64_t launch = 256;
};
// Returns the costs of passes of this model on its engine.
Rounding rounding_of(const model::Model& model);

// Returns the capacity of a program that predicts `positions` positions: a power of two.
int64_t head_capacity(int64_t positions);

// A CacheShape is the size of the cache on one rank.
struct CacheShape {
  int64_t rows = 0, capacity = 0;
  int64_t saved_rows = 0; // 0 where the model saves no snapshots
};
// Returns the shape of a pass over these rows, with capacity 0. least_rows: number of rows to round
// up to, so that passes over any of a batch's requests share a program. The shape has fewer rows if
// the padding would be large. count: rows of one rank; -1: all.
PassShape pass_shape(const model::ModelConfig& config, std::span<const PassRow> rows,
                     const CacheShape& cache, int64_t least_rows = 0, const Rounding& rounding = {},
                     int64_t count = -1);

// Groups the rows of one pass by the length of their windows, because a program pads every row to
// its longest window. Returns the indices of the rows of each group, ascending, short windows
// first. Returns one group if that computes few positions more, so an ordinary batch is one launch.
std::vector<std::vector<size_t>> window_groups(std::span<const PassRow> rows,
                                               const Rounding& rounding = {});

} // namespace dllm::decode
