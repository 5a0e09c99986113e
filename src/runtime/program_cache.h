#pragma once
// The last few programs, by key.

#include "graph/engine.h"

#include <algorithm>
#include <cstddef>
#include <list>
#include <memory>
#include <utility>

namespace dllm::runtime {

// Key: whatever decides the program (shapes, settings), compared with ==. Entry: a shared_ptr to a program, alone or
// with what its owner keeps about it. One call at a time.
template <class Key, class Entry = std::shared_ptr<graph::Program>> class ProgramCache {
public:
  explicit ProgramCache(size_t capacity) : capacity_(capacity) {}

  // make() -> Entry is called where there is none of this key; the entry used longest ago then leaves.
  template <class Make> Entry get(const Key& key, Make make) {
    const auto found = std::ranges::find(entries_, key, &std::pair<Key, Entry>::first);
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
    } else {
      entries_.emplace_front(key, make());
      if (entries_.size() > capacity_) entries_.pop_back();
    }
    return entries_.front().second;
  }
  void clear() { entries_.clear(); }
  size_t size() const { return entries_.size(); }

private:
  size_t capacity_;
  std::list<std::pair<Key, Entry>> entries_; // most recently used first
};

} // namespace dllm::runtime
