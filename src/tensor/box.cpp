#include "tensor/box.h"

#include <cstring>

namespace dllm {

BoxRuns::BoxRuns(const Shape& whole, const Box& box) {
  int64_t stride = 1;
  bool together = true; // the box contains all of every later dimension
  for (int64_t d = whole.rank(); d-- > 0;) {
    const int64_t size = box.shape.dim(d), begin = box.begin[static_cast<size_t>(d)];
    if (together) {
      length_ *= size;
      first_ += begin * stride;
      together = size == whole.dim(d);
    } else {
      outer_.insert(outer_.begin(), Dim{size, begin, stride});
      count_ *= size;
    }
    stride *= whole.dim(d);
  }
  if (length_ == 0) count_ = 0;
}

int64_t BoxRuns::begin(int64_t run) const {
  int64_t at = first_;
  for (size_t d = outer_.size(); d-- > 0;) {
    const Dim& dim = outer_[d];
    at += (dim.begin + run % dim.size) * dim.stride;
    run /= dim.size;
  }
  return at;
}

Tensor part_of(const Tensor& whole, const Box& box) {
  Tensor made(whole.dtype(), box.shape);
  made.set_format(whole.format());
  const BoxRuns runs(whole.shape(), box);
  const int64_t unit = dtype_size(whole.dtype()), bytes = runs.length() * unit;
  for (int64_t run = 0; run < runs.count(); ++run)
    std::memcpy(made.mutable_bytes() + run * bytes, whole.bytes() + runs.begin(run) * unit,
                static_cast<size_t>(bytes));
  return made;
}

} // namespace dllm
