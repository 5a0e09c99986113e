#pragma once
// Token texts are the texts of single tokens, for pictures of a canvas.

#include "text/tokenizer.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace dllm::text {

// State of a canvas position, with the numbers of the C ABI.
enum class PositionState : uint8_t { masked = 0, provisional = 1, final = 2, fixed = 3 };

class TokenTexts {
public:
  explicit TokenTexts(std::shared_ptr<const Tokenizer> tokenizer);

  // Returns the text of a token inside a sentence, with the leading space that a tokenizer drops at
  // the beginning of a text. A special token without text has its role ("<eos>"). A token without
  // both, and an unknown id, have the id in angle brackets.
  std::string of(int32_t id);
  // Returns one text per position, empty for masked positions. A character of several tokens is in
  // the text of its first position, and the texts of its other positions are empty.
  std::vector<std::string> cells(std::span<const int32_t> ids,
                                 std::span<const PositionState> states);

private:
  std::string read(std::span<const int32_t> ids) const;
  size_t join(std::span<const int32_t> ids, std::string& text) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<int32_t> before_; // a token that read() puts before the others
  std::string text_before_;     // the text of before_
  std::map<int32_t, std::string> known_;
};

} // namespace dllm::text
