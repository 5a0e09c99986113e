#pragma once
// What single tokens say inside a text, for pictures: each with its own text, never half a character.

#include "pictures/terminal.h"
#include "session.h"

#include <map>
#include <span>
#include <string>

namespace dllm::cli {

class TokenTexts {
 public:
  explicit TokenTexts(const dllm_tokenizer* tokenizer);  // outlives this object

  // As inside a sentence: a leading space that a tokenizer drops at the begin of a text is there. Special tokens
  // that have no text stand for themselves ("<eos>"); "" when nothing is known.
  const std::string& of(int32_t id);
  // One cell per position. A character spread over several decided tokens stands in the first one's cell.
  std::vector<TokenCell> cells(const Canvas& canvas);
  // The characters that cells() has put together so far, as a trace keeps them.
  const std::map<std::string, std::string>& joined() const { return joined_; }

 private:
  std::string read(std::span<const int32_t> ids) const;

  const dllm_tokenizer* tokenizer_;
  std::vector<int32_t> before_;  // a token in front, and its text
  std::string text_before_;
  std::map<int32_t, std::string> known_;
  std::map<std::string, std::string> joined_;
};

}  // namespace dllm::cli
