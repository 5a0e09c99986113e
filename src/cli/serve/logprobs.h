#pragma once
// Log probabilities of the tokens of a text, in the two forms of OpenAI's API.
//
// A diffusion model may write a token again. The log probability of a token is that of its last
// writing: what the model gave it, in view of the whole canvas of that step. The sum over a text is
// not the log probability of the text.

#include "asked.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace dllm::cli {

// Returns the field logprobs of a choice. about: dllm_queue_describe of a text that is over;
// cells: one text a position of its canvas. likely: the same for each rank of "top", with the
// likely tokens of this rank in place of the written ones. Tokens after the end of the completion
// are left out.
nlohmann::ordered_json logprobs_of(AskKind kind, const nlohmann::ordered_json& about,
                                   const std::vector<std::string>& cells,
                                   const std::vector<std::vector<std::string>>& likely);

} // namespace dllm::cli
