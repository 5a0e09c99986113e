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

// A stop text may end inside of a token. Returns the part of the token before it, which the
// completion ends with.
std::string part_of_last(const std::string& token, const std::string& completion) {
  size_t size = std::min(token.size(), completion.size());
  while (!completion.ends_with(token.substr(0, size))) --size;
  return token.substr(0, size);
}

// Returns the written tokens, up to the end of the completion. Bytes that are no characters have
// other replacements in the texts of tokens than in the completion, so bytes are not counted.
std::vector<Token> tokens_of(const Json& about, const std::vector<std::string>& cells) {
  const Json &states = about.at("states"), &confidence = about.at("confidence");
  const auto count = about.at("completion_tokens").get<size_t>();
  std::vector<Token> tokens;
  for (size_t i = 0; i < cells.size() && tokens.size() < count; ++i) {
    if (states[i].get<int>() == DLLM_FIXED) continue;
    tokens.push_back({cells[i], log_of(confidence[i])});
  }
  if (!tokens.empty() && about.at("finish") == "stop_text") {
    tokens.back().text =
        part_of_last(tokens.back().text, about.at("completion").get_ref<const std::string&>());
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
