#pragma once
// Pairs (row, choice) grouped by expert: groups are cut into tiles of equal size, so that a loop
// over tiles reads the matrix of one expert a step and computes no expert for rows of another.

#include "pjrt/lower/loops.h"

namespace dllm::pjrt {

// Fixed capacity: rows x choices pairs fill at most pairs / tile + experts tiles; how many are
// filled is known at run time.
struct ExpertGroups {
  int64_t choices, pairs, experts, tile, most_tiles;
  graph::Value tiles;  // i32(): in use
  graph::Value order;  // i32(pairs + tile): pairs by expert, those without one last
  graph::Value expert; // i32(most_tiles): of each tile
  graph::Value first;  // i32(most_tiles): where the tile begins in `order`
  graph::Value last;   // i32(most_tiles): where the group of the tile ends
  graph::Value slot;   // i32(pairs): where each pair's result is, tile by tile
  graph::Value exists; // u8(pairs): the pair has an expert

  // numbers i32(rows, choices); outside of 0..experts-1: no expert
  ExpertGroups(graph::Value numbers, int64_t experts);
};

// One tile inside a loop over `groups`.
struct ExpertTile {
  graph::Value expert; // i32()
  graph::Value pair;   // i32(tile): which pairs; beyond the group any
  graph::Value valid;  // u8(tile)
};
ExpertTile tile_at(CountedLoop& loop, const ExpertGroups& groups);

// Rows of a result that lies tile by tile -> (pairs, n); zeros where there is no expert.
graph::Value by_pair(const ExpertGroups& groups, graph::Value tiled);

} // namespace dllm::pjrt
