#pragma once
// Runs requests on a model, shows them and prints the results; the canvas as text. Shared by generate, infill and chat.

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
  Owned<dllm_tokenizer> tokenizer; // begins texts as the model's files say
  nlohmann::ordered_json about;    // dllm_model_describe
};

// fixed empty: all of canvas is given and gen_length open positions follow.
struct Request {
  std::vector<int32_t> canvas;
  std::vector<uint8_t> fixed;
};

// A causal model for which no policy was chosen decodes with the policy autoregressive and prints a line about it.
void choose_policy(Context& context, const Session& session);
// Options that this command ignores are refused or named; `holes`: the open positions are those of the canvas.
void check_decoding(const Context& context, bool holes);
// A decoder with the options of kind decoder. It keeps a trace only on request.
Owned<dllm_decoder> open_decoder(Context& context, const Session& session, bool trace);
// Adds a request with the options of kind slot; --length replaces gen_length. Returns the slot.
int64_t add_request(Context& context, dllm_decoder* decoder, const Request& request);
// For --help: what the option policy chooses, and its names.
std::string policy_sentence();
Progress progress_of(const dllm_decoder* decoder, int64_t slot);
// Steps that the policy needs for so many open positions; 0: it depends on the predictions.
int64_t planned_steps(const Context& context, int64_t open);
// Steps until all is decided, with a picture of request 0 (option quiet: none), then prints the texts. The requests
// have the seeds seed, seed + 1, ... of the option. Ctrl-C: what was decided so far is printed, kInterrupted.
int run_requests(Context& context, Session& session, const std::vector<Request>& requests);

// ---- the canvas as text (canvas.cpp) ----

// The text of a canvas with open positions; a run of N of them is written <mask:N>, as dllm infill reads it.
std::string text_with_holes(const dllm_tokenizer* tokenizer, const Canvas& canvas);

// The number of decided tokens up to the first end token, and of the most frequent one among them.
struct Repeats {
  int64_t tokens = 0, same = 0;
};
Repeats most_repeated(const Canvas& canvas, const std::vector<int32_t>& end_tokens);

// The tokens that end an answer: the ids of slot option stop, else every end token that the model's files name and `more`,
// which the option becomes.
std::vector<int32_t> choose_ends(Context& context, const Session& session,
                                 const std::vector<int32_t>& more = {});

// Where an answer ends: at any end token (choose_ends), and at the text of --until.
class Ending {
public:
  // Option "until" of the command is the text. prompt: ids in front of the answer; -1: a canvas with holes, which nothing
  // ends.
  Ending(Context& context, const Session& session, int64_t prompt);

  // True when all that comes before the text `until` is decided: the rest need not be.
  bool reached(const Canvas& canvas) const;
  // Without the first end token and what comes behind it, without `until` and what comes behind it.
  std::string text(const Canvas& canvas) const;
  const std::vector<int32_t>& end_tokens() const { return ends_; }

private:
  const dllm_tokenizer* tokenizer_;
  int64_t prompt_;
  std::vector<int32_t> ends_;
  std::string until_;
};

// The texts of single tokens, for pictures: never half a character.
class TokenTexts {
public:
  explicit TokenTexts(const dllm_tokenizer* tokenizer); // outlives this object

  // As inside a sentence, with the leading space that a tokenizer drops at the begin of a text. Special tokens
  // without text are shown by name ("<eos>"); "" when nothing is known.
  const std::string& of(int32_t id);
  // One cell per position. A character spread over several decided tokens stands in the first one's cell.
  std::vector<TokenCell> cells(const Canvas& canvas);
  // The characters that cells() has put together so far, as a trace keeps them.
  const std::map<std::string, std::string>& joined() const { return joined_; }

private:
  std::string read(std::span<const int32_t> ids) const;

  const dllm_tokenizer* tokenizer_;
  std::vector<int32_t> before_; // a token in front, and its text
  std::string text_before_;
  std::map<int32_t, std::string> known_;
  std::map<std::string, std::string> joined_;
};

} // namespace dllm::cli
