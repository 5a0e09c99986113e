#pragma once
// Cuts text into words, which the model then tokenizes one by one: the "pre_tokenizer" part of
// tokenizer.json.

#include "text/json_reader.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm {
class Task;
}

namespace dllm::text {

// A text and the pieces of it that are still wanted, in order, none empty.
struct Pieces {
  std::string text;
  std::vector<std::pair<size_t, size_t>> spans; // [begin, end) in text
  bool at_start = true; // the first piece begins where the caller's text begins
  const Task* task = nullptr; // checked while it is cut

  explicit Pieces(std::string whole, bool starts = true, const Task* task_in = nullptr)
      : text(std::move(whole)), at_start(starts), task(task_in) {
    if (!text.empty()) spans.emplace_back(0, text.size());
  }
  std::string_view view(size_t i) const {
    return std::string_view(text).substr(spans[i].first, spans[i].second - spans[i].first);
  }
};

class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  // REQUIRES: valid UTF-8, which it stays.
  virtual void apply(Pieces& pieces) const = 0;
  // True when the pieces that come out are written in the byte alphabet (byte_level.h).
  virtual bool makes_byte_chars() const { return false; }
};

// null gives a null pointer. Fails with unimplemented for a type this library does not know.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const TreeJson& json, const std::string& where);

} // namespace dllm::text
