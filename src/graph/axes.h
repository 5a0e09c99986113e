#pragma once
// Mesh axes. A value *varies* over an axis when it may differ from rank to rank along it; over the others it is equal.

#include <cstdint>
#include <string>

namespace dllm::graph {

enum class Axis : uint8_t { data = 0, fsdp = 1, tensor = 2, sequence = 3, expert = 4 };
inline constexpr int kAxisCount = 5;
const char* axis_name(Axis axis);

class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr explicit AxisSet(Axis axis) : bits_(static_cast<uint8_t>(1u << static_cast<int>(axis))) {}

  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool has(Axis axis) const { return (bits_ >> static_cast<int>(axis) & 1u) != 0; }
  constexpr AxisSet with(AxisSet other) const { return AxisSet(static_cast<uint8_t>(bits_ | other.bits_)); }
  constexpr AxisSet without(AxisSet other) const { return AxisSet(static_cast<uint8_t>(bits_ & ~other.bits_)); }
  constexpr bool contains(AxisSet other) const { return (other.bits_ & ~bits_) == 0; }
  std::string text() const;  // "{data, tensor}"
  friend constexpr bool operator==(AxisSet, AxisSet) = default;

 private:
  constexpr explicit AxisSet(uint8_t bits) : bits_(bits) {}
  uint8_t bits_ = 0;
};

}  // namespace dllm::graph
