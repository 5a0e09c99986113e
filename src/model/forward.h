#pragma once
// The programs of forward(): the last few, by shapes and options.

#include "graph/engine.h"

#include <list>
#include <memory>
#include <string>

namespace dllm::model {

// One call at a time, as the model that owns it.
class ForwardCache {
public:
  struct Entry {
    std::string key;
    std::shared_ptr<graph::Program> program;
  };
  // Null when there is none; moves a hit to the front.
  std::shared_ptr<graph::Program> find(const std::string& key);
  void add(std::string key, std::shared_ptr<graph::Program> program);
  void clear() { entries_.clear(); }

private:
  std::list<Entry> entries_;
};

} // namespace dllm::model
