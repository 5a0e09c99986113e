#pragma once
// An automaton that reads the digits of a number and has its remainder by a divisor. Two remainders
// are one state when the same further digits make 0 of both. So the multiples of 1000 need 4
// states, and the multiples of 7 need 7.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace dllm::text {

inline constexpr int32_t kMostDivisor = 1000;

class Remainders {
public:
  // divisor: from 1 to kMostDivisor.
  explicit Remainders(int32_t divisor);

  int32_t divisor() const { return divisor_; }
  int32_t size() const { return static_cast<int32_t>(next_.size()); }
  // Returns the state of the numbers that the divisor divides. The digits begin there.
  int32_t zero() const { return 0; }
  int32_t next(int32_t state, uint8_t digit) const {
    return next_[static_cast<size_t>(state)][digit];
  }

private:
  int32_t divisor_;
  std::vector<std::array<int32_t, 10>> next_;
};

} // namespace dllm::text
