#pragma once
// Copies an n-dimensional block between two arrays with any strides: transpose, slice, pad, concat,
// reverse.

#include "base/parallel.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dllm::cpu {

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

} // namespace dllm::cpu
