#pragma once
// What commands that decode share: the model with its tokenizer, checks of options, and the canvas
// as text.

#include "../../command.h"
#include "../../pictures/pictures.h"

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

// Returns a warning about a typed policy that reads another kind of model than this one, or "".
// about: dllm_generator_describe of the generator.
std::string misfit_line(const Context& context, const nlohmann::ordered_json& about);
// Returns a line about the policy that the library chose when the user typed none, or "" for the
// usual policy. about: dllm_generator_describe of the generator.
std::string policy_line(const Context& context, const Session& session,
                        const nlohmann::ordered_json& about);
// Refuses or names options that this command ignores. holes: the open positions are in the canvas.
void check_decoding(const Context& context, bool holes);
// Fails for options whose results this command does not print.
void refuse_likely_tokens(const Context& context, const std::string& way_out);
// Returns the description of option policy for --help, with the names of all policies.
std::string policy_sentence();
Progress progress_of(const dllm_decoder* decoder, int64_t slot);
// ---- the canvas as text (canvas.cpp) ----

// The number of final tokens up to the first end token, and the number of them that are the most
// frequent token.
struct Repeats {
  int64_t tokens = 0, same = 0;
};
Repeats most_repeated(const Canvas& canvas, const std::vector<int32_t>& end_tokens);

// Returns an answer without an end, for its cells.
Answer endless_answer(const dllm_tokenizer* tokenizer);
// Sets the canvas of an answer and returns its cells.
std::vector<TokenCell> cells_of(Answer& answer, const Canvas& canvas);

} // namespace dllm::cli
