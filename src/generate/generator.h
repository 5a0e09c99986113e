#pragma once
// A Generator turns requests for text into text. It has a decoder, whose slots are the requests,
// and an answer for each of them.

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/options.h"
#include "base/task.h"
#include "decode/decoder/decoder.h"
#include "generate/constraints/automata.h"
#include "generate/constraints/text_constraint.h"
#include "generate/defaults.h"
#include "generate/prompt.h"
#include "model/model.h"
#include "text/answer/answer.h"
#include "text/tokenizer.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dllm::generate {

const Schema& generator_schema(); // options of kind "generator"

// The parts of an answer that text() returns.
enum class TextPart {
  completion, // the answer; of a text with holes: all of it
  whole,      // the prompt and the answer
  next,       // the final text that no call has returned; events have a count of their own
  canvas,     // all positions, with <mask:N> for N open ones
};

// One call at a time. Keeps the model and the tokenizer alive.
class Generator {
public:
  // tokenizer: encodes prompts with its own options. Fails as decode::Decoder.
  Generator(std::shared_ptr<model::Model> model, std::shared_ptr<const text::Tokenizer> tokenizer,
            const Options& options);

  // add(), remove(), step() and run() fail with failed_precondition inside a callback of run().
  // Adds a request of kind "request" or "request:<policy>", and returns its number. Nothing changes
  // when it fails.
  int64_t add(const Options& request, const Task* task = nullptr);
  void remove(int64_t number); // fails with not_found
  // Takes one denoising step of every open request. Returns the number of open requests. An error
  // of one request ends that request alone; text() and describe() have the error.
  int64_t step(Task* task = nullptr);
  // Takes steps until no request is open. Sends the event text for each request after each of its
  // steps, and answer when it is over. Returns false if the callback stopped it.
  bool run(const EventFn& fn = nullptr, Task* task = nullptr);

  int64_t open_count() const;
  // Returns a part of the text of a request. Fails with the error of a request that failed.
  std::string text(int64_t number, TextPart part);
  Json describe(int64_t number);
  Json describe() const; // of the generator

  const std::shared_ptr<model::Model>& model() const { return model_; }
  const std::shared_ptr<const text::Tokenizer>& tokenizer() const { return tokenizer_; }
  // The slots have the numbers of the requests. Only its readers may be called.
  const std::shared_ptr<decode::Decoder>& decoder() const { return decoder_; }

private:
  struct Entry {
    text::Answer answer;
    int64_t begin;             // positions before the answer; -1: a text with holes
    bool is_chat;              // the answer is a text of its own
    std::vector<int32_t> ends; // end tokens
    std::vector<std::string> stops;
    int64_t seed;
    std::string policy;
    FileSettings from_file;
    Options decoding; // options of the decoder for this request
    std::shared_ptr<const TextConstraint> constraint = nullptr; // null: any text
    text::AnswerEnd end = text::AnswerEnd::open;
    std::shared_ptr<const Error> failure = nullptr; // null: the request did not fail
    bool is_over = false, is_sent = false;          // is_sent: the event answer was sent
  };

  void need_idle() const; // fails with failed_precondition inside a callback of run()
  Entry& at(int64_t number);
  // Returns the constraint of a request; null when it has none. Fails if no text of its length
  // matches.
  std::shared_ptr<const TextConstraint> constraint_of(const Options& request, const Prompt& prompt,
                                                      const Entry& entry, const Task* task);
  // Fails the request if its text does not match. A policy could write what was not checked.
  void check_match(Entry& entry, const decode::RequestCopy& copy) const;
  text::Answer answer_with(const Entry& entry, const char* prompt) const;
  bool need_stops() const;
  // Takes the canvas of a request, and ends the request at a stop text.
  void follow(int64_t number, Entry& entry);
  void follow_all();
  int64_t take_step(Task* task);
  // Each returns false if the callback stops.
  bool run_step(const EventFn& fn, Task* task);
  bool run_decoder(const EventFn& fn, Task* task);
  bool send_text(const EventFn& fn, int64_t number);
  bool send_answers(const EventFn& fn); // of requests that are over and were not sent

  static const char* finish_of(const Entry& entry);
  static int64_t count_prompt(const Entry& entry, const decode::RequestCopy& copy);
  static int64_t count_tokens(Entry& entry, const decode::RequestCopy& copy);
  static int64_t count_cells(Entry& entry);
  static Json filled_holes(Entry& entry, const decode::RequestCopy& copy);

  bool is_running_ = false; // a callback of run() may be on the stack
  std::shared_ptr<model::Model> model_;
  std::shared_ptr<const text::Tokenizer> tokenizer_;
  bool takes_file_;     // option defaults: generation_config.json counts
  PolicyChoice choice_; // of requests that name no policy
  Automata automata_;
  std::map<int64_t, Entry> entries_;
  std::shared_ptr<decode::Decoder> decoder_;
};

} // namespace dllm::generate
