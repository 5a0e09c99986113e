#pragma once
// Lowerings of losses and token statistics share these functions. They compute rows of logits in
// tiles of rows and parts of the vocabulary, so the table (rows, vocab) never exists as a whole.

#include "graph/filters/filter.h"
#include "graph/ops/build.h"
#include "pjrt/lower/lower.h"

#include <functional>
#include <vector>

namespace dllm::pjrt {

// The matrix of the head (vocab, in) in its stored form, or some rows of it.
struct Head {
  graph::Value weight, bias, scale; // bias and scale f32(vocab), or undefined
  const WeightFormat* format;       // of a weight in blocks; its parts do not name the format
  double softcap = 0;               // 0: no cap

  Head(const graph::ops::HeadOperands& at, std::span<const graph::Value> inputs);
  int64_t vocab() const { return weight.dim(0); }
  // Declares the values of the head inside a loop.
  Head inside(LoopBody& body) const;
  // Returns rows [begin, begin + count) of the vocabulary; begin i32().
  Head part(graph::Value begin, int64_t count) const;
  // Returns the capped logits (rows, vocab) of x (rows, in). Widens the weight right at the
  // product.
  graph::Value logits(graph::Value x) const;
  // Returns the gradient of x from d (rows, vocab), the gradient of the logits before the cap.
  graph::Value input_grad(graph::Value d) const;
};

// `tiles` tiles of `rows` rows each. The last tile may reach beyond the last row.
struct RowTiles {
  int64_t rows, tiles;
  int64_t padded() const { return rows * tiles; }
};
// Cuts `capacity` rows into the fewest tiles of at most `most` rows.
RowTiles tile_rows(int64_t capacity, int64_t most);
// Returns i32(): how many tiles hold any of the first `count` rows; all tiles if `count` is
// undefined.
graph::Value tiles_in_use(graph::Graph& graph, const RowTiles& tiles, graph::Value count,
                          int64_t capacity);

// A part of the vocabulary.
struct VocabularyPart {
  Head head;                         // rows of this part
  graph::Value begin;                // i32(): the first id
  std::vector<graph::Value> outside; // `outside` of over_vocabulary, as the step can use it
};
using VocabularyStep = std::function<std::vector<graph::Value>(
    const VocabularyPart& part, const std::vector<graph::Value>& state)>;
// Calls step(part, state) for parts of the vocabulary and returns the last state. The parts are so
// small that logits (rows, part) have a moderate size. Equal parts run inside one scan; the ids
// left over are one more call after it.
std::vector<graph::Value> over_vocabulary(const Head& head, int64_t rows,
                                          std::vector<graph::Value> state,
                                          const std::vector<graph::Value>& outside,
                                          const VocabularyStep& step);

// Indices of the operands of linear_cross_entropy and its gradient.
struct LossOperands {
  graph::ops::HeadOperands head;
  int targets, count, lse, dnll; // -1: the node does not have the operand
};
LossOperands loss_operands(const graph::Attributes& attributes, bool gradient);

// Returns u8(rows) for a tile of rows: 1 where the row is in use and its target is in the
// vocabulary. begin: i32(), number of the tile's first row. count: i32(), rows in use; undefined if
// all are.
graph::Value rows_with_target(graph::Value targets, graph::Value begin, graph::Value count,
                              int64_t vocab);
// Returns u8(rows, width): 1 at the target of each row. Column i has the id begin + i.
graph::Value target_mask(graph::Value targets, graph::Value begin, int64_t width);

// Most rows of a tile of a loss. Every tile reads the weights once, so a tile has many rows. A
// count known at run time skips whole tiles.
inline constexpr int64_t kLossRows = 2048;

// A filter of draws and its settings, one number per row.
struct RowFilter {
  const graph::DrawFilter* filter;
  graph::Value setting;
};

// How tokens are drawn from rows of logits.
struct DrawRequest {
  graph::Value temperature;       // one number per row
  std::vector<RowFilter> filters; // in the order in which they act
  graph::Value uniform;           // one number per row
  graph::Value noise;             // f32(rows, vocab) or undefined
  bool shaped = false;

  // Returns the request with other values, made by each(value). An undefined value stays undefined.
  template <class Each> DrawRequest with(const Each& each) const {
    DrawRequest made{each(temperature), filters, each(uniform), each(noise), shaped};
    for (RowFilter& row : made.filters) row.setting = each(row.setting);
    return made;
  }
};

// The ids that a draw may take are a beginning of the order by z descending, then id ascending.
// A cut is the last of these ids.
struct Cut {
  graph::Value key; // i32(rows): order_key of the last id
  graph::Value id;  // i32(rows): the last id among ids with this key
};
// Returns i32 keys of the same shape, ordered like the numbers; -0 and 0 have equal keys.
graph::Value order_key(graph::Value z);
// Returns u8(rows, vocab): 1 for the ids up to the cut.
graph::Value before_cut(graph::Value key, const Cut& cut);

// Returns u8(rows, vocab): 1 for the ids that the filters leave. z = logits / temperature; an
// id of z = -infinity is never drawn. weight = exp(z - largest z). active: u8(rows), rows whose
// result is used.
graph::Value kept_ids(const DrawRequest& ask, graph::Value z, graph::Value weight,
                      graph::Value active);

struct Drawn {
  graph::Value id;                           // i32(rows)
  graph::Value shaped_prob, margin, entropy; // f32(rows); 0 unless `shaped`
};
// Draws one id per row. best: the argmax, which is the result where temperature <= 0.
Drawn draw(const DrawRequest& ask, graph::Value logits, graph::Value best, graph::Value active);

// Returns the first id at which the running sum of weights exceeds the limit, else the last id of
// positive weight, else 0. weight f32(rows, vocab) >= 0, limit f32(rows).
graph::Value first_beyond(graph::Value weight, graph::Value limit);
// The same, where the limit is a share f32(rows) of the row's sum.
graph::Value invert(graph::Value weight, graph::Value share);

graph::Value at_id(graph::Value x, graph::Value id); // (rows, vocab), i32(rows) -> (rows)

} // namespace dllm::pjrt
