#pragma once
// How one array is laid out on the ranks of a mesh: along each mesh axis it is either equal on all ranks, or one of its
// dimensions is cut into equal parts. Several mesh axes may cut one dimension; the later axis then changes faster, as in
// the numbers of ranks (mesh.h).

#include "graph/mesh.h"
#include "tensor/tensor.h"

#include <array>
#include <cstdint>
#include <string>

namespace dllm::graph {

class Layout {
public:
  Layout() { dims_.fill(-1); } // the whole array on every rank

  // Cuts dimension `dim` over `axis`. Fails with invalid_argument when dim is not in 0..127 or the axis cuts another one.
  Layout& cut(Axis axis, int64_t dim);
  int64_t dim(Axis axis) const {
    return dims_[static_cast<size_t>(axis)];
  }                     // -1: equal over the axis
  AxisSet axes() const; // that cut a dimension
  bool is_whole() const { return axes().empty(); }
  std::string text() const; // "{fsdp: 0, tensor: 1}", "whole"

  // Shapes of a part and of the whole array. Fail with invalid_argument when a dimension that is cut does not exist or
  // does not divide by its ranks.
  Shape part_shape(const Shape& whole, const Mesh& mesh) const;
  Shape whole_shape(const Shape& part, const Mesh& mesh) const;
  // A copy of the part of one rank; the array itself when nothing is cut.
  Tensor part(const Tensor& whole, const Placement& place) const;

  friend bool operator==(const Layout&, const Layout&) = default;

private:
  // Ranks that cut a dimension, and which of their parts a rank has.
  struct Cut {
    int64_t parts = 1;
    int64_t index = 0;
  };
  Cut cut_of(int64_t dim, const Placement& place) const;
  void expect_dims(const Shape& shape) const;

  std::array<int8_t, kAxisCount> dims_; // by mesh axis
};

} // namespace dllm::graph
