#pragma once
// Walks through memory with strides. The header has copies between arrays with any strides, and
// operands that are broadcast.

#include "base/threads/parallel.h"
#include "cpu/kernel.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dllm::cpu {

// Copies an n-dimensional block between two arrays with any strides. It runs transpose, slice, pad,
// concat and reverse.

class StridedCopy {
public:
  // Strides are in elements and may be negative. `element_size` is 1, 2 or 4 bytes.
  StridedCopy(const std::vector<int64_t>& extents, const std::vector<int64_t>& to_strides,
              const std::vector<int64_t>& from_strides, int64_t element_size);

  void run(std::byte* to, const std::byte* from, const Workers& pool) const;

private:
  struct Axis {
    int64_t extent, to, from;
  };
  void copy_rows(std::byte* to, const std::byte* from, int64_t begin, int64_t end) const;

  std::vector<Axis> axes_; // joined where both strides allow it; the last is the innermost
  int64_t element_size_;
  int64_t rows_ = 1; // product of all extents but the last
};

// Returns row-major strides in elements.
std::vector<int64_t> row_major(const std::vector<int64_t>& extents);

// Copies bytes on the threads of the pool.
void parallel_copy(std::byte* to, const std::byte* from, int64_t bytes, const Workers& pool);

// Returns the operand of the `broadcast` that makes a value, or the value itself when no broadcast
// makes it.
int32_t broadcast_source(const graph::Graph& graph, int32_t value);

// The steps of the operands of an elementwise kernel through memory. A kernel reads the source of a
// `broadcast` with stride 0, so the broadcast array is not made.
class Broadcasting {
public:
  static constexpr size_t kMostOperands = 3;

  // The operands are the node's inputs. Writes their broadcast sources to kernel.reads.
  Broadcasting(const CompileInfo& info, Kernel& kernel);
  // One operand of shape `from` that is read with shape `to`, by the rules of numpy.
  Broadcasting(const Shape& from, const Shape& to);

  int64_t count() const { return count_; }

  // Calls run(out, in, length) for pieces of [begin, end). `out` is the first output element,
  // in[i].offset is the first element of operand i, and in[i].step is 1 or 0.
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
  std::vector<int64_t> extents_;              // joined where the strides of all operands allow it
  std::vector<std::vector<int64_t>> strides_; // per operand and axis, in elements
};

} // namespace dllm::cpu
