#include "logprobs.h"

#include "dllm/dllm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Token {
  std::string text;
  Json logprob; // null: the position was never predicted
};

Json log_of(const Json& confidence) {
  const double probability = confidence.is_number() ? confidence.get<double>() : 0;
  return probability > 0 ? Json(std::log(std::min(probability, 1.0))) : Json();
}

// Returns the written tokens, up to the end of the completion.
std::vector<Token> tokens_of(const Json& about, const std::vector<std::string>& cells) {
  const Json &states = about.at("states"), &confidence = about.at("confidence");
  size_t left = about.at("completion").get_ref<const std::string&>().size();
  std::vector<Token> tokens;
  for (size_t i = 0; i < cells.size() && left > 0; ++i) {
    if (states[i].get<int>() == DLLM_FIXED) continue;
    tokens.push_back({cells[i].substr(0, left), log_of(confidence[i])});
    left -= tokens.back().text.size();
  }
  return tokens;
}

Json bytes_of(const std::string& text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<uint8_t>(c));
  return bytes;
}

int64_t characters(const std::string& text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

} // namespace

Json logprobs_of(AskKind kind, const Json& about, const std::vector<std::string>& cells) {
  const std::vector<Token> tokens = tokens_of(about, cells);
  if (kind == AskKind::chat) {
    Json content = Json::array();
    for (const Token& token : tokens) {
      content.push_back({{"token", token.text},
                         {"logprob", token.logprob},
                         {"bytes", bytes_of(token.text)},
                         {"top_logprobs", Json::array()}});
    }
    return {{"content", content}, {"refusal", nullptr}};
  }
  Json texts = Json::array(), numbers = Json::array(), offsets = Json::array();
  int64_t at = characters(about.at("text").get<std::string>()) -
               characters(about.at("completion").get<std::string>());
  for (const Token& token : tokens) {
    texts.push_back(token.text);
    numbers.push_back(token.logprob);
    offsets.push_back(at);
    at += characters(token.text);
  }
  return {{"tokens", texts},
          {"token_logprobs", numbers},
          {"top_logprobs", nullptr},
          {"text_offset", offsets}};
}

} // namespace dllm::cli
