#pragma once
// Rows of logits without (rows, vocab): tiles of rows, and within a tile parts of the vocabulary.

#include "graph/ops/head_rows.h"
#include "pjrt/lower/loops.h"

#include <functional>

namespace dllm::pjrt {

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

} // namespace dllm::pjrt
