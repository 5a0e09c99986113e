#pragma once
// Rewrites text before it is cut into words: the "normalizer" part of tokenizer.json.

#include "text/json_reader.h"

#include <memory>
#include <string>

namespace dllm {
class Task;
}

namespace dllm::text {

class Normalizer {
public:
  virtual ~Normalizer() = default;
  // REQUIRES: valid UTF-8, which it stays. The task is checked every 64 KB.
  virtual void apply(std::string& text, const Task* task = nullptr) const = 0;
};

// null gives a null pointer. Fails with unimplemented for a type this library does not know.
std::unique_ptr<Normalizer> read_normalizer(const TreeJson& json, const std::string& where);

} // namespace dllm::text
