#pragma once
// Damaged files, made from valid ones by number: the same number and seeds give the same bytes
// everywhere.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::hostile {

// SplitMix64 (Steele, Lea, Flood 2014).
class Draw {
public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  uint64_t next();
  // From 0 to count - 1. REQUIRES: count > 0.
  size_t below(size_t count) { return static_cast<size_t>(next() % count); }

private:
  uint64_t state_;
};

enum class Form {
  binary, // bits, cuts, length fields
  json,   // one document: also values of other types, repeated keys, depth, huge numbers
  lines,  // JSON documents, one per line
};

// The mutant of this number.
std::string mutant(const std::vector<std::string>& seeds, Form form, uint64_t number);

// Where a JSON text begins inside a binary file: the header of safetensors. Mutates that part as
// JSON and mends the length in front of it, so that the damage is met behind the first check.
std::string header_mutant(const std::string& seed, uint64_t number);

// One damage.
std::string damaged_bytes(std::string bytes, Draw& draw);
std::string damaged_json(const std::string& text, Draw& draw);

} // namespace dllm::hostile
