#pragma once
// Cuts a text into words as the "pre_tokenizer" part of tokenizer.json says.

#include "base/task.h"
#include "text/json_reader.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::text {

// A text and the pieces of it that are kept, in order; no piece is empty.
struct Pieces {
  std::string text;
  std::vector<std::pair<size_t, size_t>> spans; // [begin, end) in text
  size_t first;     // leading bytes of text that come from the first character of the caller's text
  const Task* task; // checked while the text is cut; may be null

  Pieces(std::string whole, size_t first_in, const Task* task_in)
      : text(std::move(whole)), first(std::min(first_in, text.size())), task(task_in) {
    if (!text.empty()) spans.emplace_back(0, text.size());
  }
  std::string_view view(size_t i) const {
    return std::string_view(text).substr(spans[i].first, spans[i].second - spans[i].first);
  }
};

// A PreTokenizer, the "pre_tokenizer" part of tokenizer.json, cuts text into the words that the
// model tokenizes.
class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  // Cuts the pieces, whose text stays valid UTF-8. REQUIRES: valid UTF-8.
  virtual void apply(Pieces& pieces) const = 0;
  // Returns true when apply() writes pieces in the byte alphabet (token_model.h).
  virtual bool makes_byte_chars() const { return false; }
};

// Returns a null pointer for JSON null. Fails with unimplemented for an unknown type.
std::unique_ptr<PreTokenizer> read_pre_tokenizer(const TreeJson& json, const std::string& where);

} // namespace dllm::text
