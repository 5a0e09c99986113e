#pragma once
// Cutting work over threads, and a kernel's scratch memory into parts.

#include "base/parallel.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace dllm::cpu {

// Runs f(begin, end) over [0, count) in at most 4 ranges a thread, each worth `grain` items or
// more; a long range in pieces, between which the task is checked. Only for work whose items do not
// influence each other.
template <class F> void split(const Workers& pool, int64_t count, int64_t grain, F&& f) {
  if (count <= 0) return;
  constexpr int64_t kGrainsBetweenChecks = 64; // about 3 ms
  const int64_t threads = pool.threads();
  const int64_t most = threads == 1 ? 1 : threads * 4;
  const int64_t chunks = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, most);
  const int64_t piece = std::max<int64_t>(grain, 1) * kGrainsBetweenChecks;
  parallel(pool, chunks, [&](int64_t i) {
    const int64_t first = count * i / chunks;
    in_pieces(count * (i + 1) / chunks - first, piece, pool.task,
              [&](int64_t begin, int64_t end) { f(first + begin, first + end); });
  });
}

// Items that are worth a chunk when one item costs `operations` simple operations: about 50 us.
inline int64_t grain_of(int64_t operations) {
  return std::max<int64_t>(1, 100000 / std::max<int64_t>(operations, 1));
}

// Offsets of parts of a scratch block, each 64-byte aligned.
class ScratchLayout {
public:
  int64_t add(int64_t bytes) {
    const int64_t offset = size_;
    size_ += (bytes + 63) / 64 * 64;
    return offset;
  }
  int64_t add_floats(int64_t count) { return add(count * static_cast<int64_t>(sizeof(float))); }
  int64_t bytes() const { return size_; }

private:
  int64_t size_ = 0;
};

} // namespace dllm::cpu
