#pragma once
// A conversation with a model: what was said so far, and the next answer.

#include "decoding.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace dllm::cli {

struct Answer {
  std::string text;
  int64_t prompt_tokens = 0, steps = 0, nfe = 0;
};

class Conversation {
 public:
  // Options of kinds chat, decoder and slot come from the context. Fails when there is no chat template.
  Conversation(Context& context, Session& session);

  // Renders all that was said with `message` behind it and decodes what the assistant says. A failure, Ctrl-C too,
  // leaves the conversation as it was.
  Answer say(const std::string& message);
  void reset();  // keeps the system message

 private:
  struct Row {
    std::vector<int32_t> ids;
    std::vector<uint8_t> keep;
  };
  Row render(const nlohmann::ordered_json& messages, bool opens) const;
  int32_t find_end() const;
  Canvas decode_answer(const std::vector<int32_t>& prompt, Answer& answer);

  Context& context_;
  Session& session_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
  int32_t end_;  // the token that ends an answer, -1: the template has none
};

}  // namespace dllm::cli
