#include "tensor/shape.h"

#include "base/error.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace dllm {

int64_t Shape::dim(int64_t axis) const {
  const int64_t index = axis < 0 ? axis + rank() : axis;
  if (index < 0 || index >= rank()) fail(Code::invalid_argument, "shape {} has no axis {}", text(), axis);
  return dims_[static_cast<size_t>(index)];
}

int64_t Shape::count() const {
  int64_t product = 1;
  for (int64_t d : dims_) product *= d;
  return product;
}

Shape Shape::with_dim(int64_t axis, int64_t extent) const {
  dim(axis);
  Shape changed = *this;
  changed.dims_[static_cast<size_t>(axis < 0 ? axis + rank() : axis)] = extent;
  return changed;
}

Shape Shape::without(int64_t axis) const {
  dim(axis);
  Shape changed = *this;
  changed.dims_.erase(changed.dims_.begin() + (axis < 0 ? axis + rank() : axis));
  return changed;
}

Shape Shape::with_front(int64_t extent) const {
  Shape changed = *this;
  changed.dims_.insert(changed.dims_.begin(), extent);
  return changed;
}

std::string Shape::text() const { return fmt::format("({})", fmt::join(dims_, ", ")); }

Shape checked_shape(std::vector<int64_t> dims, int64_t element_size, const std::string& what) {
  constexpr int64_t kMaxRank = 16;
  if (static_cast<int64_t>(dims.size()) > kMaxRank) {
    fail(Code::invalid_argument, "{} has {} axes, more than {}", what, dims.size(), kMaxRank);
  }
  int64_t bytes = element_size;
  for (int64_t d : dims) {
    if (d < 0) fail(Code::invalid_argument, "{} has the negative extent {}", what, d);
    // A zero beside huge extents must not hide them: strides and partial products are computed too.
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(d, 1), &bytes)) {
      fail(Code::invalid_argument, "{} of shape ({}) overflows 64 bits", what, fmt::join(dims, ", "));
    }
  }
  return Shape(std::move(dims));
}

}  // namespace dllm
