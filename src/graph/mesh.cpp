// Parses meshes, and computes rank numbers and groups.
#include "graph/mesh.h"

#include "base/error.h"
#include "base/named_table.h"

#include <algorithm>
#include <charconv>
#include <system_error>

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

namespace {

constexpr const char* kMeshForm = "write axis=ranks, such as fsdp=4,tensor=2";

Axis axis_named(std::string_view name) {
  static constexpr Axis kAxes[kAxisCount] = {Axis::data, Axis::fsdp, Axis::tensor, Axis::sequence,
                                             Axis::expert};
  return need_named(kAxes, name, axis_name, {"mesh axis", "", "", Code::invalid_argument});
}

int64_t rank_count(std::string_view text) {
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > kMostRanks) {
    fail_with_hint(kMeshForm, Code::invalid_argument,
                   "the number of ranks is '{}', expected a number from 1 to {}",
                   text.substr(0, 40), kMostRanks);
  }
  return count;
}

} // namespace

Mesh Mesh::parse(std::string_view text) {
  Mesh mesh;
  AxisSet given;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      fail_with_hint(kMeshForm, Code::invalid_argument, "'{}' is not an axis of a mesh",
                     part.substr(0, 40));
    const Axis axis = axis_named(part.substr(0, equals));
    if (given.has(axis))
      fail(Code::invalid_argument, "mesh axis {} is given twice", axis_name(axis));
    given = given.with(AxisSet(axis));
    mesh.set(axis, rank_count(part.substr(equals + 1)));
    if (mesh.ranks() > kMostRanks)
      fail(Code::invalid_argument, "the mesh has {} ranks, at most {} are possible", mesh.ranks(),
           kMostRanks);
  }
  return mesh;
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

int64_t Mesh::size(AxisSet axes) const {
  int64_t count = 1;
  for (int i = 0; i < kAxisCount; ++i) {
    if (axes.has(static_cast<Axis>(i))) count *= sizes_[static_cast<size_t>(i)];
  }
  return count;
}

int64_t Mesh::index(int64_t rank, AxisSet axes) const {
  int64_t at = 0;
  for (int i = 0; i < kAxisCount; ++i) {
    const auto axis = static_cast<Axis>(i);
    if (axes.has(axis)) at = at * size(axis) + index(rank, axis);
  }
  return at;
}

std::vector<std::vector<int64_t>> Mesh::groups(AxisSet axes) const {
  // The ranks of one group have the same index along all other axes.
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

} // namespace dllm::graph
