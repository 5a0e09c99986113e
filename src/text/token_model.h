#pragma once
// How one word becomes token numbers: the "model" part of tokenizer.json.

#include "base/task.h"
#include "text/vocabulary.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

struct WordOptions {
  bool allow_special = false; // false: special tokens are never made out of plain text
  const Task* task = nullptr; // checked inside long words
};

// Immutable after set_special; any number of threads may encode.
class TokenModel {
public:
  virtual ~TokenModel() = default;
  // Appends the numbers of one word, valid UTF-8 and not empty. `vocabulary` is the one it was made
  // with.
  virtual void encode(std::string_view word, const WordOptions& options,
                      std::vector<int32_t>& out) const = 0;
  // The "model" object of tokenizer.json, with vocabulary.
  virtual std::string to_json() const = 0;
  // Which numbers are special tokens, by id.
  void set_special(std::vector<bool> special) { special_ = std::move(special); }

protected:
  bool is_special(int32_t id) const {
    return static_cast<size_t>(id) < special_.size() && special_[static_cast<size_t>(id)];
  }

private:
  std::vector<bool> special_;
};

// "<0x0A>", the spelling of byte tokens in SentencePiece vocabularies.
std::string byte_token(unsigned char byte);
// The byte that such a token stands for, -1: none.
int byte_of_token(std::string_view token);
// {"token": id, ...} of the tokens below `end`, in order of id.
std::string vocabulary_json(const Vocabulary& vocabulary);

} // namespace dllm::text
