#pragma once
// The common part of the kernels of a cross entropy: the rows with targets, and the gradients of
// their logits.

#include "cpu/kernel.h"
#include "cpu/kernels/rows/rows.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace dllm::cpu {

// The active rows of a cross entropy, with row < count and 0 <= target < vocab. Only these rows are
// gathered and computed.

struct LossRows {
  std::vector<int32_t> rows;    // indices in x, ascending
  std::vector<int32_t> targets; // by active row

  LossRows(const int32_t* targets_in, int64_t count, int64_t vocab) {
    for (int64_t row = 0; row < count; ++row) {
      if (targets_in[row] < 0 || targets_in[row] >= vocab) continue;
      rows.push_back(static_cast<int32_t>(row));
      targets.push_back(targets_in[row]);
    }
  }
  int64_t size() const { return static_cast<int64_t>(rows.size()); }

  // Copies the active rows of x (capacity, n) to `to` (size, n).
  void gather(const float* x, int64_t n, float* to, const Workers& pool) const {
    gather(x, n, 0, size(), to, pool);
  }
  // Copies `count` active rows from the active row `from` on to `to` (count, n).
  void gather(const float* x, int64_t n, int64_t from, int64_t count, float* to,
              const Workers& pool) const {
    split(pool, count, grain_of(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        std::copy_n(x + rows[static_cast<size_t>(from + i)] * n, n, to + i * n);
    });
  }
};

// The operands that all blocks of a gradient share. The pointers are valid during one run.
struct LossGrad {
  const KernelCall& call;
  const LossRows& active;
  const float* lse;
  const float* dnll;
  const float* scale; // null: none
  float softcap;      // 0: none

  // Replaces logits in z (count, width) by their gradients. The rows of z are `stride` numbers
  // apart. They belong to the active rows from `from` on and to the ids [begin, begin + width).
  void logit_grads(float* z, int64_t stride, int64_t from, int64_t count, int64_t begin,
                   int64_t width) const {
    split(call.pool, count, grain_of(width), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) row_grads(z + i * stride, from + i, begin, width);
    });
  }

  // Replaces the logits g of one active row by (softmax - onehot(target)) * dnll. With a softcap
  // these are the gradients of the logits before the cap.
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
  // Writes d capped / d logit = 1 - (capped / softcap)^2.
  void cap_slopes(const float* capped, int64_t count, float* slopes) const {
    for (int64_t j = 0; j < count; ++j) {
      const float t = capped[j] / softcap;
      slopes[j] = 1.0f - t * t;
    }
  }

  // Writes the sum of g over the rows, in order, to dbias. With `more` it adds to dbias.
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
