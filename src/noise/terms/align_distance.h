#pragma once
// How far the student's hidden states are from the teacher's: the graph of the alignment.

#include "graph/graph.h"

#include <cstdint>
#include <vector>

namespace dllm::noise {

enum class AlignKind {
  cosine,  // 1 - cos(s, u)
  angular, // max(0, arccos(cos(s, u)) - margin), in radians
  infonce, // -log of the softmax of s_i u_i / temperature among all positions j of the row
  blocks,  // cosine of the means over blocks of positions
};

struct AlignDistance {
  AlignKind kind = AlignKind::cosine;
  double margin = 0;         // angular
  double temperature = 0.07; // infonce
};

struct AlignStates {
  // For each layer f32(batch * k, hidden).
  std::vector<graph::Value> student, teacher;
  // f32(batch, units): the weight of a position, for blocks of a block; 0: not in use.
  graph::Value weights;
  graph::Value layers; // f32(batch, layers): weights of the layers
  graph::Value blocks; // f32(batch, units, k), for blocks: the means
};

// Returns the weighted sum of the distances, an f32 scalar.
graph::Value align_distance(const AlignDistance& distance, const AlignStates& states);

// Returns arccos(x) for -1 <= x <= 1, with an absolute error of about 1e-7. The gradient is
// -1 / sqrt(1 - x^2).
graph::Value arccos(graph::Value x);

} // namespace dllm::noise
