#pragma once
// Describes a part of an array by a range of each dimension, and copies such parts.

#include "tensor/tensor.h"

#include <cstdint>
#include <vector>

namespace dllm {

struct Box {
  std::vector<int64_t> begin; // by dimension
  Shape shape;

  static Box whole(const Shape& shape) {
    return {std::vector<int64_t>(static_cast<size_t>(shape.rank())), shape};
  }
  bool is_all_of(const Shape& whole) const { return shape == whole; }
};

// Splits a box into runs: elements that are consecutive in the whole array. All runs have the same
// length and are in the order of the box's elements.
class BoxRuns {
public:
  // REQUIRES: the box is inside the array.
  BoxRuns(const Shape& whole, const Box& box);

  int64_t count() const { return count_; }
  int64_t length() const { return length_; } // in elements
  int64_t begin(int64_t run) const;          // index of its first element in the whole array

private:
  struct Dim {
    int64_t size, begin, stride; // size: extent of the box
  };
  std::vector<Dim> outer_; // the dimensions that count the runs
  int64_t first_ = 0, length_ = 1, count_ = 1;
};

// Returns a copy of a part. The copy keeps the weight format.
Tensor part_of(const Tensor& whole, const Box& box);

} // namespace dllm
