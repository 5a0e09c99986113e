#pragma once
// Mesh axes, the ranks of a program as a grid of them, and the place of one rank.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace dllm::graph {

// Mesh axes. A value *varies* over an axis when it may differ from rank to rank along it; over the others it is equal.

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

// The ranks of a program as a grid of named axes. Rank numbers are row-major in the order of Axis: of two axes the later
// one changes faster, so `tensor` neighbours have neighbouring numbers.

class Mesh {
public:
  Mesh() { sizes_.fill(1); }

  Mesh& set(Axis axis, int64_t size); // fails with invalid_argument below 1
  int64_t size(Axis axis) const { return sizes_[static_cast<size_t>(axis)]; }
  int64_t ranks() const;
  AxisSet axes() const; // of more than one rank
  // Where a rank stands along an axis.
  int64_t index(int64_t rank, Axis axis) const;
  // Ranks that differ along `axes` alone, one group a row; in a group the last of the axes changes fastest. Groups are
  // ordered by their first rank.
  std::vector<std::vector<int64_t>> groups(AxisSet axes) const;
  // The row of groups(axes) that has `rank`.
  std::vector<int64_t> group_of(int64_t rank, AxisSet axes) const;
  std::string text() const; // "2 x 4 ranks (data, tensor)", "1 rank"
  friend bool operator==(const Mesh&, const Mesh&) = default;

private:
  int64_t stride(Axis axis) const;
  std::array<int64_t, kAxisCount> sizes_;
};

// One rank of a mesh. By default the only rank of a mesh of one.
struct Placement {
  Mesh mesh;
  int64_t rank = 0;

  bool is_single() const { return mesh.ranks() == 1; }
  int64_t index(Axis axis) const { return mesh.index(rank, axis); }
  friend bool operator==(const Placement&, const Placement&) = default;
};

} // namespace dllm::graph
