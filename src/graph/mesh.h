#pragma once
// The ranks of a program as a grid of named axes. Rank numbers are row-major in the order of Axis: of two axes the later
// one changes faster, so `tensor` neighbours have neighbouring numbers.

#include "graph/axes.h"

#include <array>
#include <cstdint>
#include <vector>

namespace dllm::graph {

class Mesh {
 public:
  Mesh() { sizes_.fill(1); }

  Mesh& set(Axis axis, int64_t size);  // fails with invalid_argument below 1
  int64_t size(Axis axis) const { return sizes_[static_cast<size_t>(axis)]; }
  int64_t ranks() const;
  AxisSet axes() const;  // of more than one rank
  // Where a rank stands along an axis.
  int64_t index(int64_t rank, Axis axis) const;
  // Ranks that differ along `axes` alone, one group a row; in a group the last of the axes changes fastest. Groups are
  // ordered by their first rank.
  std::vector<std::vector<int64_t>> groups(AxisSet axes) const;

 private:
  int64_t stride(Axis axis) const;
  std::array<int64_t, kAxisCount> sizes_;
};

}  // namespace dllm::graph
