#pragma once
// These functions decode requests, show them and print the results, for the commands generate,
// infill and chat. This header also turns a canvas into text; the library does most of it.

#include "../command.h"
#include "../pictures/pictures.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::cli {

using dllm::api::Answer;

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

// Returns the answer of a request of dllm generate, after `begin` positions of its prompt, with the
// text of the prompt. `ends` and the text of --until end it. begin -1: the text has holes, and
// nothing ends the answer.
Answer prompted_answer(const Context& context, const dllm_tokenizer* tokenizer, int64_t begin,
                       const std::vector<int32_t>& ends);
// Returns the answer of a turn of dllm chat, a text of its own that `ends` end.
Answer spoken_answer(const dllm_tokenizer* tokenizer, int64_t begin,
                     const std::vector<int32_t>& ends);
// Returns an answer that continues the text of its prompt, without that text. `ends` end it.
Answer continued_answer(const dllm_tokenizer* tokenizer, int64_t begin,
                        const std::vector<int32_t>& ends);
// Returns an answer without an end, for its cells.
Answer endless_answer(const dllm_tokenizer* tokenizer);
// Sets the canvas of an answer and returns its cells.
std::vector<TokenCell> cells_of(Answer& answer, const Canvas& canvas);

} // namespace dllm::cli
