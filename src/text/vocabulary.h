#pragma once
// Tokens and their numbers. Numbers may have holes; a token may have several numbers, then the last
// one added counts.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

class Vocabulary {
public:
  // Fails with data_loss when the number is taken by another token or far above what `expected`
  // tokens need.
  void add(std::string_view token, int64_t id, int64_t expected);
  // -1 when there is none.
  int32_t find(std::string_view token) const;
  bool has(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) < tokens_.size() && used_[static_cast<size_t>(id)];
  }
  // REQUIRES: has(id).
  const std::string& token(int32_t id) const { return tokens_[static_cast<size_t>(id)]; }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); } // highest number + 1
  int64_t count() const { return count_; }                              // numbers in use

private:
  void rebuild(size_t slots);
  size_t slot_of(std::string_view token) const;

  std::vector<std::string> tokens_;
  std::vector<bool> used_;
  std::vector<int32_t> slots_; // open addressing; -1: free
  int64_t count_ = 0;
};

} // namespace dllm::text
