// Names of axes, numbers of ranks and groups.
#include "graph/mesh.h"

#include "base/error.h"
#include "tensor/weight_format.h"

#include <cstring>

namespace dllm::graph {

const char* axis_name(Axis axis) {
  switch (axis) {
  case Axis::data: return "data";
  case Axis::fsdp: return "fsdp";
  case Axis::tensor: return "tensor";
  case Axis::sequence: return "sequence";
  case Axis::expert: return "expert";
  }
  return "unknown";
}

std::string AxisSet::text() const {
  std::string text = "{";
  for (int i = 0; i < kAxisCount; ++i) {
    if (!has(static_cast<Axis>(i))) continue;
    if (text.size() > 1) text += ", ";
    text += axis_name(static_cast<Axis>(i));
  }
  return text + "}";
}

Mesh& Mesh::set(Axis axis, int64_t size) {
  if (size < 1)
    fail(Code::invalid_argument, "mesh axis {} has {} ranks, at least 1 is needed", axis_name(axis),
         size);
  sizes_[static_cast<size_t>(axis)] = size;
  return *this;
}

int64_t Mesh::ranks() const {
  int64_t count = 1;
  for (const int64_t size : sizes_) count *= size;
  return count;
}

AxisSet Mesh::axes() const {
  AxisSet set;
  for (int i = 0; i < kAxisCount; ++i) {
    if (sizes_[static_cast<size_t>(i)] > 1) set = set.with(AxisSet(static_cast<Axis>(i)));
  }
  return set;
}

int64_t Mesh::stride(Axis axis) const {
  int64_t product = 1;
  for (int i = static_cast<int>(axis) + 1; i < kAxisCount; ++i)
    product *= sizes_[static_cast<size_t>(i)];
  return product;
}

int64_t Mesh::index(int64_t rank, Axis axis) const {
  return rank / stride(axis) % size(axis);
}

std::vector<std::vector<int64_t>> Mesh::groups(AxisSet axes) const {
  // Ranks of one group agree in the number made of their other coordinates.
  const auto others = [&](int64_t rank) {
    int64_t key = 0;
    for (int i = 0; i < kAxisCount; ++i) {
      const auto axis = static_cast<Axis>(i);
      key = key * size(axis) + (axes.has(axis) ? 0 : index(rank, axis));
    }
    return key;
  };
  std::vector<std::vector<int64_t>> made;
  std::vector<int64_t> keys;
  for (int64_t rank = 0; rank < ranks(); ++rank) {
    const int64_t key = others(rank);
    size_t at = 0;
    while (at < keys.size() && keys[at] != key) ++at;
    if (at == keys.size()) {
      keys.push_back(key);
      made.emplace_back();
    }
    made[at].push_back(rank);
  }
  return made;
}

std::vector<int64_t> Mesh::group_of(int64_t rank, AxisSet axes) const {
  for (std::vector<int64_t>& group : groups(axes)) {
    for (const int64_t member : group) {
      if (member == rank) return std::move(group);
    }
  }
  fail(Code::out_of_range, "rank {} is not in a mesh of {}", rank, text());
}

std::string Mesh::text() const {
  if (ranks() == 1) return "1 rank";
  std::string numbers, names;
  for (int i = 0; i < kAxisCount; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (size(axis) == 1) continue;
    if (!numbers.empty()) {
      numbers += " x ";
      names += ", ";
    }
    numbers += std::to_string(size(axis));
    names += axis_name(axis);
  }
  return numbers + " ranks (" + names + ")";
}

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

// A row of a weight format may be cut between two blocks only.
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

} // namespace dllm::graph
