#pragma once
// What the kernels of a cross entropy share: the rows that count, and gradients of their logits.

#include "cpu/kernel.h"
#include "cpu/kernels/rows/rows.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dllm::cpu {

// The rows of a cross entropy that count: row < count and 0 <= target < vocab. Only they are
// gathered and computed.

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
    gather(x, n, 0, size(), to, pool);
  }
  // `count` of them from the active row `from` on.
  void gather(const float* x, int64_t n, int64_t from, int64_t count, float* to,
              const Workers& pool) const {
    split(pool, count, grain_of(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        std::copy_n(x + rows[static_cast<size_t>(from + i)] * n, n, to + i * n);
    });
  }
};

// Everything the blocks share; pointers are valid during one run.
struct LossGrad {
  const KernelCall& call;
  const LossRows& active;
  const float* lse;
  const float* dnll;
  const float* scale; // or null
  float softcap;      // 0: none

  // z (count, width), rows `stride` apart: logits of the active rows from `from` on at ids [begin, begin + width) ->
  // gradients of the logits
  void logit_grads(float* z, int64_t stride, int64_t from, int64_t count, int64_t begin,
                   int64_t width) const {
    split(call.pool, count, grain_of(width), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) row_grads(z + i * stride, from + i, begin, width);
    });
  }

  // Of one active row: (softmax - onehot(target)) * dnll, of the logits before the cap where there is one.
  void row_grads(float* g, int64_t active_row, int64_t begin, int64_t width) const {
    const Rows& math = rows();
    const size_t at = static_cast<size_t>(active_row);
    const int32_t row = active.rows[at];
    const int64_t target = active.targets[at] - begin;
    for (int64_t j = 0; j < width; j += kSlopes) {
      const int64_t count = std::min(kSlopes, width - j);
      float slopes[kSlopes];
      if (softcap > 0) cap_slopes(g + j, count, slopes);
      math.exp_sum(g + j, 1.0f, lse[row], count, g + j);
      if (target >= j && target < j + count) g[target] -= 1.0f;
      math.scale(dnll[row], count, g + j);
      for (int64_t s = 0; softcap > 0 && s < count; ++s) g[j + s] *= slopes[s];
    }
  }

  static constexpr int64_t kSlopes = 512;
  // d capped / d logit = 1 - (capped / softcap)^2
  void cap_slopes(const float* capped, int64_t count, float* slopes) const {
    for (int64_t j = 0; j < count; ++j) {
      const float t = capped[j] / softcap;
      slopes[j] = 1.0f - t * t;
    }
  }

  // dbias = sum over rows, in order; `more`: added to what is there.
  void add_bias(const float* g, int64_t stride, int64_t count, int64_t width, bool more,
                float* dbias) const {
    const Rows& math = rows();
    if (!more) std::fill_n(dbias, width, 0.0f);
    split(call.pool, width, grain_of(count), [&](int64_t first, int64_t last) {
      for (int64_t i = 0; i < count; ++i)
        math.add_to(g + i * stride + first, last - first, dbias + first);
    });
  }

  void apply_scale(float* g, int64_t stride, int64_t count, int64_t begin, int64_t width) const {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < width; ++j) g[i * stride + j] *= scale[begin + j];
    }
  }
};

} // namespace dllm::cpu
