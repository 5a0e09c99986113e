#pragma once
// Remembers the tokens of short words: text repeats itself, merging need not.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dllm::text {

// Not synchronised: who encodes holds it alone.
class WordCache {
public:
  // Null when the word is not known yet.
  const std::vector<int32_t>* find(std::string_view word) const {
    const auto found = words_.find(word);
    return found == words_.end() ? nullptr : &found->second;
  }
  void add(std::string_view word, const int32_t* ids, size_t count) {
    if (word.size() > kLongest || words_.size() >= kMost) return;
    words_.emplace(word, std::vector<int32_t>(ids, ids + count));
  }
  void clear() { words_.clear(); }

private:
  static constexpr size_t kLongest = 64;   // bytes
  static constexpr size_t kMost = 1 << 16; // words, some 10 MB
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::unordered_map<std::string, std::vector<int32_t>, Hash, std::equal_to<>> words_;
};

} // namespace dllm::text
