// Implements strided copies and broadcast operands (strides.h).

#include "cpu/kernels/strides.h"

#include "cpu/kernel.h"
#include "graph/op.h"

#include <cstring>
#include <string_view>

namespace dllm::cpu {

namespace {

template <class T>
void copy_elements(std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step,
                   int64_t count) {
  T* y = reinterpret_cast<T*>(to);
  const T* x = reinterpret_cast<const T*>(from);
  for (int64_t i = 0; i < count; ++i) y[i * to_step] = x[i * from_step];
}

} // namespace

std::vector<int64_t> row_major(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size());
  int64_t step = 1;
  for (size_t a = extents.size(); a-- > 0;) {
    strides[a] = step;
    step *= extents[a];
  }
  return strides;
}

void parallel_copy(std::byte* to, const std::byte* from, int64_t bytes, const Workers& pool) {
  split(pool, bytes, int64_t{1} << 18, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

StridedCopy::StridedCopy(const std::vector<int64_t>& extents,
                         const std::vector<int64_t>& to_strides,
                         const std::vector<int64_t>& from_strides, int64_t element_size)
    : element_size_(element_size) {
  for (size_t a = 0; a < extents.size(); ++a) {
    const Axis axis{extents[a], to_strides[a], from_strides[a]};
    if (axis.extent == 1) continue;
    if (!axes_.empty() && axes_.back().to == axis.to * axis.extent &&
        axes_.back().from == axis.from * axis.extent) {
      axes_.back() = {axes_.back().extent * axis.extent, axis.to, axis.from};
    } else {
      axes_.push_back(axis);
    }
  }
  if (axes_.empty()) axes_.push_back({1, 1, 1});
  for (size_t a = 0; a + 1 < axes_.size(); ++a) rows_ *= axes_[a].extent;
}

void StridedCopy::copy_rows(std::byte* to, const std::byte* from, int64_t begin,
                            int64_t end) const {
  const Axis& inner = axes_.back();
  for (int64_t row = begin; row < end; ++row) {
    int64_t rest = row, to_offset = 0, from_offset = 0;
    for (size_t a = axes_.size() - 1; a-- > 0;) {
      const int64_t at = rest % axes_[a].extent;
      rest /= axes_[a].extent;
      to_offset += at * axes_[a].to;
      from_offset += at * axes_[a].from;
    }
    std::byte* y = to + to_offset * element_size_;
    const std::byte* x = from + from_offset * element_size_;
    if (inner.to == 1 && inner.from == 1) {
      std::memcpy(y, x, static_cast<size_t>(inner.extent * element_size_));
    } else if (element_size_ == 4) {
      copy_elements<uint32_t>(y, inner.to, x, inner.from, inner.extent);
    } else if (element_size_ == 2) {
      copy_elements<uint16_t>(y, inner.to, x, inner.from, inner.extent);
    } else {
      copy_elements<uint8_t>(y, inner.to, x, inner.from, inner.extent);
    }
  }
}

void StridedCopy::run(std::byte* to, const std::byte* from, const Workers& pool) const {
  const Axis& inner = axes_.back();
  if (rows_ == 1 && inner.to == 1 && inner.from == 1) {
    return parallel_copy(to, from, inner.extent * element_size_, pool);
  }
  if (inner.extent == 0) return;
  split(pool, rows_, grain_of(inner.extent),
        [&](int64_t begin, int64_t end) { copy_rows(to, from, begin, end); });
}

namespace {

// Returns the strides of a row-major array of shape `from` that is read with shape `to`. They are 0
// along repeated axes.
std::vector<int64_t> strides_as(const Shape& from, const Shape& to) {
  std::vector<int64_t> strides(static_cast<size_t>(to.rank()), 0);
  int64_t step = 1;
  for (int64_t a = from.rank() - 1, b = to.rank() - 1; a >= 0; --a, --b) {
    if (from.dim(a) != 1) strides[static_cast<size_t>(b)] = step;
    step *= from.dim(a);
  }
  return strides;
}

} // namespace

int32_t broadcast_source(const graph::Graph& graph, int32_t value) {
  const int32_t producer = graph.producer(value);
  if (producer < 0) return value;
  const graph::Node& node = graph.nodes()[static_cast<size_t>(producer)];
  return std::string_view(node.op->name) == "broadcast" ? node.inputs[0] : value;
}

Broadcasting::Broadcasting(const CompileInfo& info, Kernel& kernel) {
  std::vector<Shape> shapes;
  kernel.reads.clear();
  for (int32_t input : info.node.inputs) {
    kernel.reads.push_back(broadcast_source(info.graph, input));
    shapes.push_back(info.graph.type(kernel.reads.back()).shape);
  }
  build(shapes, info.output(0).shape);
}

Broadcasting::Broadcasting(const Shape& from, const Shape& to) {
  build({from}, to);
}

void Broadcasting::build(const std::vector<Shape>& shapes, const Shape& to) {
  count_ = to.count();
  strides_.resize(shapes.size());
  std::vector<std::vector<int64_t>> all;
  for (const Shape& shape : shapes) all.push_back(strides_as(shape, to));
  for (int64_t axis = 0; axis < to.rank(); ++axis) {
    const auto a = static_cast<size_t>(axis);
    const int64_t extent = to.dim(axis);
    if (extent == 1) continue;
    bool joins = !extents_.empty();
    for (size_t i = 0; i < shapes.size(); ++i) {
      joins = joins && strides_[i].back() == all[i][a] * extent;
    }
    if (joins) {
      extents_.back() *= extent;
      for (size_t i = 0; i < shapes.size(); ++i) strides_[i].back() = all[i][a];
    } else {
      extents_.push_back(extent);
      for (size_t i = 0; i < shapes.size(); ++i) strides_[i].push_back(all[i][a]);
    }
  }
}

} // namespace dllm::cpu
