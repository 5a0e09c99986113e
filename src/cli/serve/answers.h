#pragma once
// The objects of OpenAI's API that a server sends.

#include "../http/http_server.h"
#include "asked.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// What all objects of one answer have.
struct AnswerHead {
  AskKind kind = AskKind::completion;
  std::string id, model;
  int64_t created = 0;    // seconds since 1970
  bool is_formed = false; // the texts match a pattern, so a full one is whole
};

// Returns the whole answer. abouts: dllm_queue_describe of each text, and its logprobs when they
// are asked for; has_echo: completions begin with their prompts.
nlohmann::ordered_json whole_answer(const AnswerHead& head, bool has_echo,
                                    const std::vector<nlohmann::ordered_json>& abouts);

// Returns a piece of a stream: new final text of text number `index`. about: null, or its
// description when it is over.
nlohmann::ordered_json piece_of_answer(const AnswerHead& head, size_t index, std::string_view text,
                                       const nlohmann::ordered_json& about);
// Returns a piece of a stream with calls of functions.
nlohmann::ordered_json piece_of_calls(const AnswerHead& head, size_t index,
                                      const nlohmann::ordered_json& called);
nlohmann::ordered_json usage_piece(const AnswerHead& head,
                                   const std::vector<nlohmann::ordered_json>& abouts);
// Returns what the canvas of a text is now, for clients that ask for it. canvas: its text with
// holes; cells: one text a position.
nlohmann::ordered_json canvas_piece(size_t index, const std::string& canvas,
                                    const std::vector<std::string>& cells,
                                    const nlohmann::ordered_json& about);
std::string event_text(const nlohmann::ordered_json& data, const char* name = nullptr);

// Returns the answer for an error, with the status that its kind has in HTTP.
HttpAnswer error_answer(dllm_status status, const std::string& message, const std::string& hint);
nlohmann::ordered_json error_json(dllm_status status, const std::string& message,
                                  const std::string& hint);
HttpAnswer json_answer(const nlohmann::ordered_json& json, int status = 200);

} // namespace dllm::cli
