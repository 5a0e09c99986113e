#pragma once
// A hash table of 64-bit keys with open addressing: merge pairs, trie edges, pair counts. Nothing
// is ever removed.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dllm::text {

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

  // The value of `key`, made from Value{} when it is new. Valid until the next insertion.
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

} // namespace dllm::text
