#pragma once
// A part of an array: a range of each of its dimensions.

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

// The elements of a box that lie together in the whole array: runs of equal length, in the order of the part.
class BoxRuns {
public:
  // REQUIRES: the box lies in the array.
  BoxRuns(const Shape& whole, const Box& box);

  int64_t count() const { return count_; }
  int64_t length() const { return length_; } // in elements
  int64_t begin(int64_t run) const;          // its first element in the whole array

private:
  struct Dim {
    int64_t size, begin, stride; // size: of the box
  };
  std::vector<Dim> outer_; // dimensions that runs step through
  int64_t first_ = 0, length_ = 1, count_ = 1;
};

// A copy of a part; formats stay.
Tensor part_of(const Tensor& whole, const Box& box);

} // namespace dllm
