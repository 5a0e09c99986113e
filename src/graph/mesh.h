#pragma once
// Defines mesh axes, meshes of ranks, the place of one rank, and the layout of an array on the
// ranks.

#include "tensor/tensor.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::graph {

// A value varies over an axis if it may differ between the ranks along that axis; else it is equal
// over the axis.
enum class Axis : uint8_t { data = 0, fsdp = 1, tensor = 2, sequence = 3, expert = 4 };
inline constexpr int kAxisCount = 5;
const char* axis_name(Axis axis);

class AxisSet {
public:
  constexpr AxisSet() = default;
  constexpr explicit AxisSet(Axis axis)
      : bits_(static_cast<uint8_t>(1u << static_cast<int>(axis))) {}

  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool has(Axis axis) const { return (bits_ >> static_cast<int>(axis) & 1u) != 0; }
  constexpr AxisSet with(AxisSet other) const {
    return AxisSet(static_cast<uint8_t>(bits_ | other.bits_));
  }
  constexpr AxisSet without(AxisSet other) const {
    return AxisSet(static_cast<uint8_t>(bits_ & ~other.bits_));
  }
  constexpr bool contains(AxisSet other) const { return (other.bits_ & ~bits_) == 0; }
  std::string text() const; // "{data, tensor}"
  friend constexpr bool operator==(AxisSet, AxisSet) = default;

private:
  constexpr explicit AxisSet(uint8_t bits) : bits_(bits) {}
  uint8_t bits_ = 0;
};

inline constexpr int64_t kMostRanks = 1 << 16;

// The ranks of a program as a grid of named axes. Rank numbers are row-major in the order of Axis:
// the later of two axes changes faster, so neighbours along `tensor` have consecutive numbers.
class Mesh {
public:
  Mesh() { sizes_.fill(1); }
  // Parses "fsdp=4,tensor=2"; "" is one rank. Fails with invalid_argument for an unknown or
  // repeated axis or a wrong number.
  static Mesh parse(std::string_view text);

  Mesh& set(Axis axis, int64_t size); // fails with invalid_argument below 1
  int64_t size(Axis axis) const { return sizes_[static_cast<size_t>(axis)]; }
  int64_t ranks() const;
  AxisSet axes() const; // the axes with more than one rank
  // Returns the index of a rank along an axis.
  int64_t index(int64_t rank, Axis axis) const;
  // Return the number of places along several axes, and a rank's place, in the order of a group.
  int64_t size(AxisSet axes) const;
  int64_t index(int64_t rank, AxisSet axes) const;
  // Returns the groups of ranks that differ only along `axes`. In a group the last of the axes
  // changes fastest. Groups are ordered by their first rank.
  std::vector<std::vector<int64_t>> groups(AxisSet axes) const;
  // Returns the group of groups(axes) that contains `rank`.
  std::vector<int64_t> group_of(int64_t rank, AxisSet axes) const;
  std::string text() const; // "2 x 4 ranks (data, tensor)", "1 rank"
  friend bool operator==(const Mesh&, const Mesh&) = default;

private:
  int64_t stride(Axis axis) const;
  std::array<int64_t, kAxisCount> sizes_;
};

// One rank of a mesh. The default is the only rank of a mesh of one.
struct Placement {
  Mesh mesh;
  int64_t rank = 0;

  bool is_single() const { return mesh.ranks() == 1; }
  int64_t index(Axis axis) const { return mesh.index(rank, axis); }
  friend bool operator==(const Placement&, const Placement&) = default;
};

// The layout of one array on the ranks of a mesh. Along each mesh axis the array is equal on all
// ranks, or one of its dimensions is cut into equal parts. Several mesh axes may cut one dimension;
// the later axis then changes faster, as in rank numbers.
class Layout {
public:
  Layout() { dims_.fill(-1); } // the whole array on every rank

  // Cuts dimension `dim` over `axis`. Fails with invalid_argument if dim is not in 0..127 or the
  // axis already cuts another dimension.
  Layout& cut(Axis axis, int64_t dim);
  // Returns the dimension that the axis cuts, or -1 if the array is equal over the axis.
  int64_t dim(Axis axis) const { return dims_[static_cast<size_t>(axis)]; }
  AxisSet axes() const; // the axes that cut a dimension
  bool is_whole() const { return axes().empty(); }
  std::string text() const; // "{fsdp: 0, tensor: 1}", "whole"

  // Return the shape of a part, or of the whole array. Fail with invalid_argument if a cut
  // dimension does not exist or is not a multiple of its ranks.
  Shape part_shape(const Shape& whole, const Mesh& mesh) const;
  Shape whole_shape(const Shape& part, const Mesh& mesh) const;
  // Returns a copy of one rank's part, or the array itself if the layout cuts no dimension.
  Tensor part(const Tensor& whole, const Placement& place) const;
  // Returns the whole array, given the part of each rank.
  Tensor join(std::span<const Tensor> parts, const Mesh& mesh) const;

  friend bool operator==(const Layout&, const Layout&) = default;

private:
  // The number of parts of a dimension, and the index of a rank's part.
  struct Cut {
    int64_t parts = 1;
    int64_t index = 0;
  };
  Cut cut_of(int64_t dim, const Placement& place) const;
  void expect_dims(const Shape& shape) const;

  std::array<int8_t, kAxisCount> dims_; // by mesh axis
};

} // namespace dllm::graph
