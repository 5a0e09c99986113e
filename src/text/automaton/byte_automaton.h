#pragma once
// A ByteAutomaton accepts the texts that match a regular expression or a grammar as a whole. It
// reads them byte by byte, and has no state from which no text matches.

#include "base/task.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

// What a pattern is written in: a regular expression (pattern.h), or a grammar (grammar.h).
enum class Notation { expression, grammar };

class ByteAutomaton {
public:
  static constexpr int32_t kDead = -1; // no text matches from here

  // Compiles a pattern. Fails with invalid_argument, naming the place of a fault. It also fails for
  // a pattern that no text matches or that needs more than kMostStates states or too much work. The
  // task is checked while the states are made.
  explicit ByteAutomaton(std::string_view pattern, const Task* task = nullptr,
                         Notation notation = Notation::expression);

  static constexpr size_t kMostStates = 1 << 13;
  static constexpr size_t kMostBytes = size_t{1} << 20; // of a pattern

  // Returns the number of states.
  int32_t size() const { return static_cast<int32_t>(accepts_.size()); }
  int32_t begin() const { return 0; }
  bool accepts(int32_t state) const { return accepts_[static_cast<size_t>(state)] != 0; }
  int32_t next(int32_t state, uint8_t byte) const {
    return table_[static_cast<size_t>(state) * static_cast<size_t>(classes_) + class_of_[byte]];
  }
  // Reads bytes from a state that is not dead.
  int32_t read(int32_t state, std::string_view bytes) const;
  bool matches(std::string_view text) const;

private:
  std::array<uint16_t, 256> class_of_{}; // bytes of a class lead to the same states
  int32_t classes_ = 0;
  std::vector<int32_t> table_; // (state, class)
  std::vector<uint8_t> accepts_;
};

// Returns the pattern that matches this text alone.
std::string escaped_pattern(std::string_view text);

} // namespace dllm::text
