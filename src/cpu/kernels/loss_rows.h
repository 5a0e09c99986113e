#pragma once
// The rows of a cross entropy that count: row < count and 0 <= target < vocab. Only they are
// gathered and computed.

#include "cpu/kernels/head.h"

#include <vector>

namespace dllm::cpu {

struct LossRows {
  std::vector<int32_t> rows;    // indices in x, ascending
  std::vector<int32_t> targets; // of those rows

  LossRows(const int32_t* targets_in, int64_t count, int64_t vocab) {
    for (int64_t row = 0; row < count; ++row) {
      if (targets_in[row] < 0 || targets_in[row] >= vocab) continue;
      rows.push_back(static_cast<int32_t>(row));
      targets.push_back(targets_in[row]);
    }
  }
  int64_t size() const { return static_cast<int64_t>(rows.size()); }

  // to (size, n) = the rows of x (capacity, n).
  void gather(const float* x, int64_t n, float* to, const Workers& pool) const {
    split(pool, size(), grain_of(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        std::copy_n(x + rows[static_cast<size_t>(i)] * n, n, to + i * n);
    });
  }
};

} // namespace dllm::cpu
