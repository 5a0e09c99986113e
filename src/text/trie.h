#pragma once
// Byte strings with a number each, found by prefix: added tokens and Unigram pieces.

#include "text/flat_map.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace dllm::text {

class Trie {
public:
  bool empty() const { return values_.size() == 1; }
  // Replaces the value of a word that is there already. REQUIRES: word not empty, value >= 0.
  void add(std::string_view word, int32_t value) {
    int32_t node = 0;
    for (char c : word) {
      int32_t& next = edges_[edge(node, c)];
      if (next == 0) {
        next = static_cast<int32_t>(values_.size());
        values_.push_back(-1);
      }
      node = next;
    }
    values_[static_cast<size_t>(node)] = value;
    starts_[static_cast<unsigned char>(word[0])] = true;
  }

  // Calls found(size, value) for every word that begins at `at`, shortest first.
  template <class F> void prefixes(std::string_view text, size_t at, F&& found) const {
    if (at >= text.size() || !starts_[static_cast<unsigned char>(text[at])]) return;
    int32_t node = 0;
    for (size_t i = at; i < text.size(); ++i) {
      const int32_t* next = edges_.find(edge(node, text[i]));
      if (next == nullptr) return;
      node = *next;
      const int32_t value = values_[static_cast<size_t>(node)];
      if (value >= 0) found(i + 1 - at, value);
    }
  }

private:
  static uint64_t edge(int32_t node, char c) {
    return (static_cast<uint64_t>(node) << 8) | static_cast<unsigned char>(c);
  }
  FlatMap<int32_t> edges_;
  std::vector<int32_t> values_{-1}; // by node; -1: no word ends here
  std::vector<bool> starts_ = std::vector<bool>(256);
};

} // namespace dllm::text
