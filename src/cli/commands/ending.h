#pragma once
// Where an answer ends: at the tokenizer's end token, and at a text of the user's.

#include "../session.h"

#include <string>

namespace dllm::cli {

class Ending {
 public:
  // A slot option stop that is not set becomes the tokenizer's end token; option "until" of the command is the text.
  // prompt: ids in front of the answer; -1: a canvas with holes, which nothing ends.
  Ending(Context& context, const dllm_tokenizer* tokenizer, int64_t prompt);

  // True when all that comes before the text `until` is decided: the rest need not be.
  bool reached(const Canvas& canvas) const;
  // Without the end token and what comes behind it, without `until` and what comes behind it.
  std::string text(const Canvas& canvas) const;
  int32_t end_token() const { return end_; }  // -1: none

 private:
  const dllm_tokenizer* tokenizer_;
  int64_t prompt_;
  int32_t end_ = -1;
  std::string until_;
};

}  // namespace dllm::cli
