#pragma once
// Rows of logits: the head of a language model, rows of a loss, rows of token statistics.

#include "graph/ops/build.h"
#include "pjrt/lower/lower.h"

#include <functional>
#include <vector>

namespace dllm::pjrt {

// Rows of logits without (rows, vocab): tiles of rows, and within a tile parts of the vocabulary.

// The matrix of the head (vocab, in) in its stored form, or a part of its rows.
struct Head {
  graph::Value weight, bias, scale; // bias f32(vocab), scale f32(vocab); may be undefined
  double softcap = 0;               // 0: none

  Head(const graph::ops::HeadOperands& at, std::span<const graph::Value> inputs);
  int64_t vocab() const { return weight.dim(0); }
  Head inside(LoopBody& body) const;
  // Rows [begin, begin + count) of the vocabulary; begin i32().
  Head part(graph::Value begin, int64_t count) const;
  // x (rows, in) -> (rows, vocab), capped. The weight is widened right at the product.
  graph::Value logits(graph::Value x) const;
  // d (rows, vocab), gradient of logits before the cap -> gradient of x
  graph::Value input_grad(graph::Value d) const;
};

// Tiles of equal size; the last may reach over the end. Their number is 1 for few rows.
struct RowTiles {
  int64_t rows, tiles;
  int64_t padded() const { return rows * tiles; }
};
RowTiles tile_rows(int64_t capacity, int64_t most);
// Tiles that hold any of the first `count` rows, i32(); an undefined count: all.
graph::Value tiles_in_use(graph::Graph& graph, const RowTiles& tiles, graph::Value count,
                          int64_t capacity);

// Calls step(state, begin, width) for parts of the vocabulary, such that rows x part is of moderate
// size: inside one scan, and once outside for what is left over.
struct VocabularyPart {
  Head head;
  graph::Value begin;                // i32(): id of the first
  std::vector<graph::Value> outside; // those given, where the step can see them
};
using VocabularyStep = std::function<std::vector<graph::Value>(
    const VocabularyPart& part, const std::vector<graph::Value>& state)>;
std::vector<graph::Value> over_vocabulary(const Head& head, int64_t rows,
                                          std::vector<graph::Value> state,
                                          const std::vector<graph::Value>& outside,
                                          const VocabularyStep& step);

// The rows of linear_cross_entropy and of its gradient.

struct LossOperands {
  graph::ops::HeadOperands head;
  int targets, count, lse, dnll; // -1: not there
};
LossOperands loss_operands(const graph::Attributes& attributes, bool gradient);

// A tile of rows: u8(rows), 1 where the row has a target inside the vocabulary and is in use.
// begin: number of the first row, i32(); count may be undefined.
graph::Value rows_with_target(graph::Value targets, graph::Value begin, graph::Value count,
                              int64_t vocab);
// u8(rows, width): 1 at the target where it is in the part of the vocabulary from `begin` on.
graph::Value target_mask(graph::Value targets, graph::Value begin, int64_t width);

// Weights are read once per tile, so a tile has many rows; run-time counts skip whole tiles.
inline constexpr int64_t kLossRows = 2048;

// What the files of token_statistics share: options of rows of logits, and small reductions
// over the vocabulary.

// Per row unless noted.
struct DrawRequest {
  graph::Value temperature, top_k, top_p, uniform;
  graph::Value noise; // f32(rows, vocab) or undefined
  bool nucleus_first = false, shaped = false;
};

// The ids a draw may take: those before a place in the order (z descending, id ascending).
struct Cut {
  graph::Value key; // i32(rows): of the last id
  graph::Value id;  // i32(rows): the last id among equals
};
// Orders like the numbers themselves, -0 like 0. i32, same shape.
graph::Value order_key(graph::Value z);
graph::Value before_cut(graph::Value key, const Cut& cut); // u8(rows, vocab)

// u8(rows, vocab). z = logits / temperature, -infinity: never drawn; weight = exp(z - largest).
// active: u8(rows), rows whose answer is used.
graph::Value kept_ids(const DrawRequest& ask, graph::Value z, graph::Value weight,
                      graph::Value active);

struct Drawn {
  graph::Value id;                           // i32(rows)
  graph::Value shaped_prob, margin, entropy; // f32(rows); 0 unless `shaped`
};
// best: the argmax, drawn where temperature <= 0.
Drawn draw(const DrawRequest& ask, graph::Value logits, graph::Value best, graph::Value active);

// The first id whose running weight exceeds the limit, else the last of positive weight, else 0.
// weight f32(rows, vocab) >= 0, limit f32(rows).
graph::Value first_beyond(graph::Value weight, graph::Value limit);
// The same with a share f32(rows) of the row's sum as limit.
graph::Value invert(graph::Value weight, graph::Value share);

graph::Value at_id(graph::Value x, graph::Value id); // (rows, vocab), i32(rows) -> (rows)

} // namespace dllm::pjrt
