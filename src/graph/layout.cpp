// Cuts an array into the parts of the ranks, and joins the parts.
#include "base/error.h"
#include "graph/mesh.h"
#include "tensor/weight_format.h"

#include <algorithm>
#include <cstring>

namespace dllm::graph {

Layout& Layout::cut(Axis axis, int64_t dim) {
  if (dim < 0 || dim > 127)
    fail(Code::invalid_argument, "mesh axis {} cannot cut dimension {}", axis_name(axis), dim);
  int8_t& held = dims_[static_cast<size_t>(axis)];
  if (held >= 0 && held != dim) {
    fail(Code::invalid_argument, "mesh axis {} cuts dimension {} already and cannot cut {} too",
         axis_name(axis), static_cast<int>(held), dim);
  }
  held = static_cast<int8_t>(dim);
  return *this;
}

AxisSet Layout::axes() const {
  AxisSet set;
  for (int i = 0; i < kAxisCount; ++i) {
    if (dims_[static_cast<size_t>(i)] >= 0) set = set.with(AxisSet(static_cast<Axis>(i)));
  }
  return set;
}

std::string Layout::text() const {
  std::string text;
  for (int i = 0; i < kAxisCount; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (dim(axis) < 0) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", axis_name(axis), dim(axis));
  }
  return text.empty() ? "whole" : "{" + text + "}";
}

void Layout::expect_dims(const Shape& shape) const {
  for (int i = 0; i < kAxisCount; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (dim(axis) < shape.rank()) continue;
    fail(Code::invalid_argument, "layout {} cuts dimension {}, the array {} has {}", text(),
         dim(axis), shape.text(), shape.rank());
  }
}

Layout::Cut Layout::cut_of(int64_t dim, const Placement& place) const {
  Cut cut;
  for (int i = 0; i < kAxisCount; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (dims_[static_cast<size_t>(i)] != dim) continue;
    cut.parts *= place.mesh.size(axis);
    cut.index = cut.index * place.mesh.size(axis) + place.index(axis);
  }
  return cut;
}

Shape Layout::part_shape(const Shape& whole, const Mesh& mesh) const {
  expect_dims(whole);
  Shape part = whole;
  for (int64_t d = 0; d < whole.rank(); ++d) {
    const int64_t parts = cut_of(d, {mesh, 0}).parts;
    if (whole.dim(d) % parts != 0) {
      fail_with_hint("choose a size that divides by the ranks", Code::invalid_argument,
                     "dimension {} of {} does not divide by {} ranks (layout {})", d, whole.text(),
                     parts, text());
    }
    part = part.with_dim(d, whole.dim(d) / parts);
  }
  return part;
}

Shape Layout::whole_shape(const Shape& part, const Mesh& mesh) const {
  expect_dims(part);
  Shape whole = part;
  for (int64_t d = 0; d < part.rank(); ++d)
    whole = whole.with_dim(d, part.dim(d) * cut_of(d, {mesh, 0}).parts);
  return whole;
}

namespace {

// Fails if a cut of the last dimension would split a block of a weight format.
void expect_whole_blocks(const Tensor& held, int64_t dim, int64_t size) {
  const WeightFormat* format = held.format();
  if (format == nullptr || dim != held.shape().rank() - 1 || size % format->block_bytes == 0)
    return;
  fail_with_hint("cut the rows, or keep the weight in another format", Code::invalid_argument,
                 "{} bytes of a row are not whole blocks of {} bytes ({})", size,
                 format->block_bytes, format->name);
}

} // namespace

Tensor Layout::part(const Tensor& whole, const Placement& place) const {
  const Shape shape = part_shape(whole.shape(), place.mesh);
  Tensor held = whole;
  for (int64_t d = 0; d < shape.rank(); ++d) {
    const Cut cut = cut_of(d, place);
    if (cut.parts == 1) continue;
    int64_t outer = 1, inner = dtype_size(held.dtype());
    for (int64_t i = 0; i < d; ++i) outer *= held.shape().dim(i);
    for (int64_t i = d + 1; i < held.shape().rank(); ++i) inner *= held.shape().dim(i);
    expect_whole_blocks(held, d, shape.dim(d));
    Tensor made(held.dtype(), held.shape().with_dim(d, shape.dim(d)));
    made.set_format(held.format());
    const auto bytes = static_cast<size_t>(shape.dim(d) * inner);
    for (int64_t o = 0; o < outer && bytes > 0; ++o) {
      std::memcpy(made.mutable_bytes() + o * shape.dim(d) * inner,
                  held.bytes() + (o * cut.parts + cut.index) * shape.dim(d) * inner, bytes);
    }
    held = std::move(made);
  }
  return held;
}

Tensor Layout::join(std::span<const Tensor> parts, const Mesh& mesh) const {
  const Tensor& first = parts[0];
  if (is_whole()) return first;
  const Shape shape = whole_shape(first.shape(), mesh);
  int64_t last = 0; // the last dimension that is cut
  for (const int8_t dim : dims_) last = std::max<int64_t>(last, dim);
  int64_t run = dtype_size(first.dtype()); // bytes that are consecutive in part and whole
  for (int64_t d = last; d < shape.rank(); ++d) run *= first.shape().dim(d);
  const int64_t runs = run == 0 ? 0 : first.byte_size() / run;

  Tensor whole(first.dtype(), shape);
  whole.set_format(first.format());
  for (size_t r = 0; r < parts.size(); ++r) {
    const Placement place{mesh, static_cast<int64_t>(r)};
    // Ranks along axes without a cut have the same part.
    if (mesh.index(place.rank, mesh.axes().without(axes())) != 0) continue;
    for (int64_t n = 0; n < runs; ++n) {
      // stride: bytes in the whole array, for the part's dimensions from `last` outwards
      int64_t left = n, to = 0, stride = run;
      stride *= cut_of(last, place).parts;
      to = cut_of(last, place).index * run;
      for (int64_t d = last - 1; d >= 0; --d) {
        const Cut cut = cut_of(d, place);
        const int64_t size = first.shape().dim(d);
        to += (cut.index * size + left % size) * stride;
        left /= size;
        stride *= size * cut.parts;
      }
      std::memcpy(whole.mutable_bytes() + to, parts[r].bytes() + n * run, static_cast<size_t>(run));
    }
  }
  return whole;
}

} // namespace dllm::graph
