#pragma once
// An answer is the text of a canvas after the prompt, while a decoder decides the canvas. The
// answer has the place where it ends, and which part of its text no later step changes.

#include "base/options.h"
#include "text/answer/text_ends.h"
#include "text/answer/token_texts.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::text {

// Options of an answer: begin, prompt, end_tokens, stop, and those of the rules in text_ends.h.
const Schema& answer_schema();

// Why an answer is over, with the numbers of the C ABI. open: it is not over. stop_text: a rule of
// text_ends.h ends it.
enum class AnswerEnd { open = 0, full = 1, end_token = 2, stop_text = 3 };

class Answer {
public:
  Answer(std::shared_ptr<const Tokenizer> tokenizer, const Options& options);
  // ends: its rules, in place of those of the options.
  Answer(std::shared_ptr<const Tokenizer> tokenizer, const Options& options,
         std::shared_ptr<const TextEnds> ends);

  // Takes the canvas as it is now. Ids outside of the vocabulary have no text. A canvas of fewer
  // positions than option begin is all prompt. REQUIRES: one state per id.
  AnswerEnd update(std::vector<int32_t> ids, std::vector<PositionState> states);
  // Returns the text up to the first masked position, with provisional tokens, and never past the
  // end of the answer. Half a character at the end is left out until the answer is over.
  std::string text() const;
  // Each reader gets the whole text, in pieces.
  enum class Reader { call, event };
  // Returns the text of final positions that next() has not returned to this reader. Leaves out
  // what a rule of its end or a later byte could still change. Fails with failed_precondition when
  // final positions have changed whose text was returned.
  std::string next(Reader reader = Reader::call);
  // Returns whether next() has had, or has, a text.
  bool has_sure_text() const {
    return final_.end == AnswerEnd::open ? final_.sure > 0 : !final_.text.empty();
  }
  // Returns false for a decided position whose token is left out of every text. Such tokens are an
  // end token in a hole, and a mask token of a model that has not learned to fill the position.
  bool has_text(size_t position) const;
  // Returns one text per position of the canvas (TokenTexts::cells).
  std::vector<std::string> cells() { return texts_.cells(ids_, states_); }

private:
  // A text from its first decided position on.
  struct Reading {
    std::string text; // after the prompt, or with the prompt where it is included
    size_t sure = 0;  // leading bytes that no later token changes
    AnswerEnd end = AnswerEnd::open;
  };
  enum class Prompt { apart, before, included };

  Reading read(size_t count) const;
  std::vector<int32_t> with_text(size_t first, size_t count) const;
  size_t count_decided(bool with_provisional) const;
  size_t first_position() const;
  size_t first_read() const;
  size_t prompt_bytes(std::string_view text) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t begin_; // positions before the answer; -1: the whole canvas is the answer
  Prompt prompt_;
  std::vector<int32_t> ends_;
  std::vector<int32_t> silent_; // tokens without a text where they are decided
  std::vector<int32_t> start_;  // ids that begin every text (bos)
  std::shared_ptr<const TextEnds> text_ends_;
  TokenTexts texts_;

  std::vector<int32_t> ids_;
  std::vector<PositionState> states_;
  Reading final_;           // of the final positions at the beginning
  std::string returned_[2]; // by next(), to each reader
};

} // namespace dllm::text
