#pragma once
// Sums over rows (gradients of norm weights and biases) with borders that depend on the number of
// rows only: each block of rows adds up in order, then the blocks in order. So the bits do not
// depend on the threads.

#include "base/parallel.h"
#include "cpu/kernels/rows.h"

#include <algorithm>
#include <cstdint>

namespace dllm::cpu {

class RowBlocks {
public:
  explicit RowBlocks(int64_t count)
      : count_(count), size_(std::max<int64_t>(kSmallest, (count + kMost - 1) / kMost)) {}

  int64_t blocks() const { return (count_ + size_ - 1) / size_; }

  // body(row, block) for every row, the rows of a block in order.
  template <class F> void each(const Workers& pool, const F& body) const {
    parallel(pool, blocks(), [&](int64_t block) {
      for (int64_t row = block * size_; row < std::min(count_, (block + 1) * size_); ++row)
        body(row, block);
    });
  }

  // total (n) = sum of partial (blocks, n) over blocks, in order.
  void add_up(const float* partial, int64_t n, float* total) const {
    std::fill_n(total, n, 0.0f);
    for (int64_t block = 0; block < blocks(); ++block) rows().add_to(partial + block * n, n, total);
  }

private:
  static constexpr int64_t kSmallest = 16;
  static constexpr int64_t kMost = 64;
  int64_t count_;
  int64_t size_;
};

} // namespace dllm::cpu
