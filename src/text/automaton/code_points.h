#pragma once
// A set of code points, for the classes of a pattern. Private to src/text/automaton.

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::text {

struct CodeRange {
  uint32_t first, last; // both are in the set
};

class CodePoints {
public:
  CodePoints() = default;
  CodePoints(std::initializer_list<CodeRange> ranges) : ranges_(ranges) { join(); }
  void add(uint32_t first, uint32_t last);
  void add(const CodePoints& other);
  // Returns all other code points, without surrogates.
  CodePoints others() const;
  // Returns the ranges in ascending order. No range touches another.
  const std::vector<CodeRange>& ranges() const { return ranges_; }

private:
  void join();

  std::vector<CodeRange> ranges_;
};

// One to four ranges of bytes, which follow each other.
struct ByteRange {
  uint8_t first, last;
};
using ByteRanges = std::vector<ByteRange>;

// Returns sequences of byte ranges that are the UTF-8 of the code points of the set, and of no
// others.
std::vector<ByteRanges> utf8_of(const CodePoints& set);

} // namespace dllm::text
