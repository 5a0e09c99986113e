#pragma once
// These functions decode requests, show them and print the results, for the commands generate,
// infill and chat. This header also turns a canvas into text.

#include "../command.h"
#include "../pictures/pictures.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace dllm::cli {

struct Session {
  explicit Session(Context& context);
  Owned<dllm_engine> engine;
  Owned<dllm_model> model;
  Owned<dllm_tokenizer> tokenizer; // of open_prompt_tokenizer()
  nlohmann::ordered_json about;    // of dllm_model_describe
};

struct Request {
  std::vector<int32_t> canvas;
  // One per position. Empty: the whole canvas is fixed, and gen_length open positions follow it.
  std::vector<uint8_t> fixed;
};

// Chooses a policy when the user did not. A causal model gets the policy autoregressive, and a line
// about it is printed.
void choose_policy(Context& context, const Session& session);
// Refuses or names options that this command ignores. holes: the open positions are in the canvas.
void check_decoding(const Context& context, bool holes);
// Makes a decoder with the options of kind decoder, with a trace when `trace` is set.
Owned<dllm_decoder> open_decoder(Context& context, const Session& session, bool trace);
// Adds a request with the options of kind slot; --length replaces gen_length. Returns the slot.
int64_t add_request(Context& context, dllm_decoder* decoder, const Request& request);
// Returns the description of option policy for --help, with the names of all policies.
std::string policy_sentence();
Progress progress_of(const dllm_decoder* decoder, int64_t slot);
// Returns the number of steps that the policy takes for `open` open positions, or 0 when it depends
// on the predictions.
int64_t planned_steps(const Context& context, int64_t open);
// Decodes the requests, whose seeds are seed, seed + 1, ... of option seed, and prints the texts.
// Shows a picture of request 0 unless option quiet is set. Returns the exit code. After Ctrl-C it
// prints the tokens decided so far and returns kInterrupted.
int run_requests(Context& context, Session& session, const std::vector<Request>& requests);

// ---- the canvas as text (canvas.cpp) ----

// Returns the text of a canvas, with N consecutive open positions as <mask:N>. dllm infill reads
// this form.
std::string text_with_holes(const dllm_tokenizer* tokenizer, const Canvas& canvas);

// The number of final tokens up to the first end token, and the number of them that are the most
// frequent token.
struct Repeats {
  int64_t tokens = 0, same = 0;
};
Repeats most_repeated(const Canvas& canvas, const std::vector<int32_t>& end_tokens);

// Returns the ids of the tokens that end an answer: slot option stop, else the end tokens of the
// model's files and `more`. In the second case it sets option stop to these ids.
std::vector<int32_t> choose_ends(Context& context, const Session& session,
                                 const std::vector<int32_t>& more = {});

// The end of an answer: an end token of choose_ends(), or the text of --until.
class Ending {
public:
  // prompt: number of ids before the answer. -1: a canvas with holes, in which no token or text
  // ends an answer.
  Ending(Context& context, const Session& session, int64_t prompt);

  // Returns true when the decided tokens at the beginning of the answer contain the text of
  // --until, so that later positions need not be decided.
  bool reached(const Canvas& canvas) const;
  // Returns the text up to the first end token and up to the text of --until.
  std::string text(const Canvas& canvas) const;
  const std::vector<int32_t>& end_tokens() const { return ends_; }

private:
  const dllm_tokenizer* tokenizer_;
  int64_t prompt_;
  std::vector<int32_t> ends_;
  std::string until_;
};

// The texts of single tokens, for pictures.
class TokenTexts {
public:
  explicit TokenTexts(const dllm_tokenizer* tokenizer); // tokenizer outlives this object

  // Returns the text of a token inside a sentence, with the leading space that a tokenizer drops at
  // the beginning of a text. A special token without text has its name ("<eos>"). Returns "" for an
  // unknown id.
  const std::string& of(int32_t id);
  // Returns one cell per position. A character of several decided tokens is in the cell of the
  // first token.
  std::vector<TokenCell> cells(const Canvas& canvas);
  // Returns the characters of several tokens that cells() has found so far, in the form of a trace.
  const std::map<std::string, std::string>& joined() const { return joined_; }

private:
  std::string read(std::span<const int32_t> ids) const;

  const dllm_tokenizer* tokenizer_;
  std::vector<int32_t> before_; // a token that read() puts before the others
  std::string text_before_;     // the text of before_
  std::map<int32_t, std::string> known_;
  std::map<std::string, std::string> joined_;
};

} // namespace dllm::cli
