#pragma once
// FlatMap and Trie are the hash table and trie of the tokenizers, for merge pairs, pair counts,
// added tokens and Unigram pieces. Entries are never removed.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dllm::text {

// A hash table of 64-bit keys with open addressing.
template <class Value> class FlatMap {
public:
  // REQUIRES: key is not all ones.
  const Value* find(uint64_t key) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = start(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return &slots_[i].value;
      if (slots_[i].key == kFree) return nullptr;
    }
  }
  Value* find(uint64_t key) {
    return const_cast<Value*>(static_cast<const FlatMap*>(this)->find(key));
  }

  // Returns the value of `key`, and inserts Value{} for a new key. The reference is valid until the
  // next insertion.
  Value& operator[](uint64_t key) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    size_t i = start(key);
    while (slots_[i].key != key && slots_[i].key != kFree) i = (i + 1) & (slots_.size() - 1);
    if (slots_[i].key == kFree) {
      slots_[i].key = key;
      ++count_;
    }
    return slots_[i].value;
  }

  size_t size() const { return count_; }

private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Slot {
    uint64_t key = kFree;
    Value value{};
  };

  size_t start(uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u; // golden ratio: spreads neighbours
    return static_cast<size_t>(key ^ (key >> 32)) & (slots_.size() - 1);
  }

  void grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_ = std::vector<Slot>(old.empty() ? 16 : 2 * old.size());
    for (Slot& slot : old) {
      if (slot.key == kFree) continue;
      size_t i = start(slot.key);
      while (slots_[i].key != kFree) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = std::move(slot);
    }
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

inline uint64_t pair_key(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

// A map from byte strings to numbers that finds all words at a position of a text. Added tokens and
// Unigram pieces are stored in it.
class Trie {
public:
  bool empty() const { return values_.size() == 1; }
  // Adds a word, or replaces its value. REQUIRES: word not empty, value >= 0.
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
