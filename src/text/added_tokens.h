#pragma once
// Tokens that are looked for as whole strings in the text before anything else happens: control
// tokens and words added after training.

#include "base/meter.h"
#include "text/trie.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dllm {
class Task;
}

namespace dllm::text {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool special = false;     // never made from plain text, left out by decode(skip_special)
  bool single_word = false; // only where no word character touches it
  bool lstrip = false;      // takes the white space before it
  bool rstrip = false;      // takes the white space after it
  bool normalized = false;  // looked for in the normalized text, else in the text as it came
};

// A stretch of text that is one added token, or (id -1) plain text.
struct TextPart {
  size_t begin;
  size_t end;
  int32_t id;
};

class AddedTokens {
public:
  // `normalized_content`: the content as the normalizer leaves it, for tokens with `normalized`.
  void add(AddedToken token, const std::string& normalized_content);
  // Null when the id is no added token.
  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  const std::map<int32_t, AddedToken>& all() const { return tokens_; }

  // Cuts `text` into added tokens and plain text, longest match first. normalized: which of the two
  // kinds is looked for. special: special tokens are looked for too. The task is checked every 64 KB.
  std::vector<TextPart> split(std::string_view text, bool normalized, bool special,
                              const Task* task = nullptr) const;
  // The same for texts of several authors: a special token is looked for by its content and counts
  // only where trusted(begin, end) says yes. Normalized ones that are not special are left alone.
  using Trusted = std::function<bool(size_t begin, size_t end)>;
  std::vector<TextPart> split(std::string_view text, const Trusted& trusted,
                              const Task* task = nullptr) const;

private:
  template <class Accept>
  std::vector<TextPart> cut(std::string_view text, const Trie& trie, const Task* task,
                            Accept&& accept) const;

  std::map<int32_t, AddedToken> tokens_;
  std::map<std::string, int32_t, std::less<>> by_content_;
  Trie tries_[2][2]; // [normalized][special tokens too]
  Trie contents_;    // for texts of several authors
  std::vector<std::shared_ptr<const MeterCharge>> charges_;
};

} // namespace dllm::text
