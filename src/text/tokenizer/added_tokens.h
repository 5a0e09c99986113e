#pragma once
// Finds added tokens in a text before the text is cut into words.

#include "base/task.h"
#include "base/threads/meter.h"
#include "text/tokenizer/flat_map.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

// An added token is found as a whole string in the text before the text is cut into words. Added
// tokens are control tokens, and words that were added after training.
struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool special = false;     // never made from plain text, left out by decode(skip_special)
  bool single_word = false; // matches only where no word character is next to it
  bool lstrip = false;      // includes the white space before it
  bool rstrip = false;      // includes the white space after it
  bool normalized = false;  // true: found in the normalized text; false: in the original text
};

// Bytes [begin, end) of a text, which are one added token or, with id -1, plain text.
struct TextPart {
  size_t begin;
  size_t end;
  int32_t id;
};

class AddedTokens {
public:
  // normalized_content: the normalizer's result for the content, for tokens with `normalized`.
  void add(AddedToken token, const std::string& normalized_content);
  // Both return null when there is no such added token.
  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  const std::map<int32_t, AddedToken>& all() const { return tokens_; }

  // Cuts `text` into added tokens and plain text, longest match first. It finds only tokens whose
  // `normalized` equals the argument, and special tokens only with `special`. Checks the task
  // every 64 KB.
  std::vector<TextPart> split(std::string_view text, bool normalized, bool special,
                              const Task* task = nullptr) const;
  // Cuts a text of several authors. It finds special tokens by their content, only where
  // trusted(begin, end) returns true, and tokens that are neither special nor normalized.
  using Trusted = std::function<bool(size_t begin, size_t end)>;
  std::vector<TextPart> split(std::string_view text, const Trusted& trusted,
                              const Task* task = nullptr) const;

private:
  template <class Accept>
  std::vector<TextPart> cut(std::string_view text, const Trie& trie, const Task* task,
                            Accept&& accept) const;

  std::map<int32_t, AddedToken> tokens_;
  std::map<std::string, int32_t, std::less<>> by_content_;
  Trie tries_[2][2]; // [normalized][with special tokens]
  Trie contents_;    // for texts of several authors
  std::vector<std::shared_ptr<const MeterCharge>> charges_;
};

} // namespace dllm::text
