#pragma once
// The text of a request while a decoder decides its canvas: the answer, why it ended, its counts.

#include "base/error.h"
#include "base/json.h"
#include "decode/trace/published.h"
#include "generate/text_request.h"
#include "text/answer/answer.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dllm::generate {

// The parts of an answer that text() returns.
enum class TextPart {
  completion, // the answer; of a text with holes: all of it
  whole,      // the prompt and the answer
  next,       // the final text that no call has returned; events have a count of their own
  canvas,     // all positions, with <mask:N> for N open ones
};

// One call at a time.
class RequestText {
public:
  RequestText(std::shared_ptr<const text::Tokenizer> tokenizer,
              std::shared_ptr<const TextRequest> request);

  // Takes the canvas as it is now. A request that is over stays as it is.
  void update(decode::RequestCopyRef copy);
  // Ends the request with an error.
  void fail(std::shared_ptr<const Error> error);

  const TextRequest& request() const { return *request_; }
  const decode::RequestCopy& copy() const { return *copy_; } // REQUIRES: after update()
  const decode::RequestCopyRef& copy_ref() const { return copy_; }
  bool is_over() const { return is_over_; }
  text::AnswerEnd end() const { return end_; }
  // Returns null for a request that did not fail.
  const std::shared_ptr<const Error>& failure() const { return failure_; }
  const char* finish() const; // as dllm_generator_describe
  // Returns whether part "next" has had, or has, a text.
  bool has_final_text() const { return answer_.has_sure_text(); }
  int64_t prompt_tokens() const;
  int64_t completion_tokens();

  // Returns a part of the text. Fails with the error of a request that failed. The calls below
  // REQUIRE that update() was called.
  std::string text(TextPart part);
  std::string next_of_event() { return answer_.next(text::Answer::Reader::event); }
  Json describe(int64_t number);

private:
  text::Answer answer_with(const char* prompt) const;
  std::string canvas() const;
  int64_t count_cells();
  Json filled_holes();
  Json likely_tokens() const;

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  std::shared_ptr<const TextRequest> request_;
  text::Answer answer_;
  decode::RequestCopyRef copy_;
  text::AnswerEnd end_ = text::AnswerEnd::open;
  std::shared_ptr<const Error> failure_;
  bool is_over_ = false;
};

Json to_json(const Error& error); // code, message and hint

} // namespace dllm::generate
