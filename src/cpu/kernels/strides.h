#pragma once
// Steps through memory: blocks copied between arrays with any strides, and operands that broadcast.

#include "base/parallel.h"
#include "cpu/kernel.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dllm::cpu {

// Copies an n-dimensional block between two arrays with any strides: transpose, slice, pad, concat,
// reverse.

class StridedCopy {
public:
  // Strides in elements, negative ones allowed; element_size 1, 2 or 4.
  StridedCopy(const std::vector<int64_t>& extents, const std::vector<int64_t>& to_strides,
              const std::vector<int64_t>& from_strides, int64_t element_size);

  void run(std::byte* to, const std::byte* from, const Workers& pool) const;

private:
  struct Axis {
    int64_t extent, to, from;
  };
  void copy_rows(std::byte* to, const std::byte* from, int64_t begin, int64_t end) const;

  std::vector<Axis> axes_; // joined where both sides step alike; the last is the innermost
  int64_t element_size_;
  int64_t rows_ = 1; // product of all extents but the last
};

// Row-major strides in elements.
std::vector<int64_t> row_major(const std::vector<int64_t>& extents);

// memcpy over the pool's threads.
void parallel_copy(std::byte* to, const std::byte* from, int64_t bytes, const Workers& pool);

// How the operands of an elementwise kernel step through memory. A `broadcast` that makes an
// operand is looked through: its source is read with stride 0, so nothing is copied.

// The node that makes a value when it is a broadcast, else the value itself.
int32_t broadcast_source(const graph::Graph& graph, int32_t value);

class Broadcasting {
public:
  static constexpr size_t kMostOperands = 3;

  // Operands are the node's inputs; their sources go to kernel.reads.
  Broadcasting(const CompileInfo& info, Kernel& kernel);
  // One operand of shape `from` (numpy rules) read as `to`.
  Broadcasting(const Shape& from, const Shape& to);

  int64_t count() const { return count_; }

  // Calls run(out, in, length) for pieces of [begin, end): `out` is the first output element,
  // in[i].offset the operand's first element and in[i].step 1 or 0.
  struct In {
    int64_t offset;
    int64_t step;
  };
  template <class F> void for_each(int64_t begin, int64_t end, F&& run) const {
    std::array<In, kMostOperands> in{};
    const size_t operands = strides_.size(), axes = extents_.size();
    for (size_t i = 0; i < operands; ++i) in[i].step = axes == 0 ? 0 : strides_[i][axes - 1];
    const int64_t row = axes == 0 ? 1 : extents_[axes - 1];
    while (begin < end) {
      int64_t rest = begin / row;
      const int64_t column = begin % row;
      for (size_t i = 0; i < operands; ++i) in[i].offset = column * in[i].step;
      for (size_t a = axes; a-- > 1;) {
        const int64_t at = rest % extents_[a - 1];
        rest /= extents_[a - 1];
        for (size_t i = 0; i < operands; ++i) in[i].offset += at * strides_[i][a - 1];
      }
      const int64_t length = std::min(row - column, end - begin);
      run(begin, in.data(), length);
      begin += length;
    }
  }

private:
  void build(const std::vector<Shape>& shapes, const Shape& to);

  int64_t count_ = 0;
  std::vector<int64_t> extents_;              // axes that step alike are joined
  std::vector<std::vector<int64_t>> strides_; // per operand and axis, in elements
};

} // namespace dllm::cpu
