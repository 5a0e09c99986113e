#include "cpu/kernels/broadcasting.h"

#include "graph/op.h"

#include <string_view>

namespace dllm::cpu {
namespace {

// Row-major strides of `from` seen as `to`; 0 along repeated axes.
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
