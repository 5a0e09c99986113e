#pragma once
// How the operands of an elementwise kernel step through memory. A `broadcast` that makes an
// operand is looked through: its source is read with stride 0, so nothing is copied.

#include "cpu/kernel.h"
#include "cpu/kernels/split.h"

#include <array>
#include <cstdint>
#include <vector>

namespace dllm::cpu {

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
