#pragma once
// Rewrites a text as the "normalizer" part of tokenizer.json says.

#include "base/task.h"
#include "text/json_reader.h"

#include <cstddef>
#include <memory>
#include <string>

namespace dllm::text {

// A Normalizer, the "normalizer" part of tokenizer.json, rewrites text before it is cut into words.
class Normalizer {
public:
  virtual ~Normalizer() = default;
  // Rewrites the text, which stays valid UTF-8. Checks the task every 64 KB. REQUIRES: valid UTF-8.
  void apply(std::string& text, const Task* task = nullptr) const {
    size_t first = 0;
    apply_at(text, first, task);
  }
  // Does the same and keeps `first` up to date. It is the number of bytes at the beginning of the
  // text that come from the first character of the caller's text.
  virtual void apply_at(std::string& text, size_t& first, const Task* task) const = 0;
};

// Returns a null pointer for JSON null. Fails with unimplemented for an unknown type.
std::unique_ptr<Normalizer> read_normalizer(const TreeJson& json, const std::string& where);

} // namespace dllm::text
