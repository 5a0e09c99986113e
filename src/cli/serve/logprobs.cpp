#include "logprobs.h"

#include "dllm/dllm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Token {
  std::string text;
  Json logprob;                                     // null: the position was never predicted
  std::vector<std::pair<std::string, Json>> likely; // texts and log probabilities
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
std::vector<Token> tokens_of(const Json& about, const std::vector<std::string>& cells,
                             const std::vector<std::vector<std::string>>& likely) {
  const Json &states = about.at("states"), &confidence = about.at("confidence");
  const auto count = about.at("completion_tokens").get<size_t>();
  std::vector<Token> tokens;
  for (size_t i = 0; i < cells.size() && tokens.size() < count; ++i) {
    if (states[i].get<int>() == DLLM_FIXED) continue;
    tokens.push_back({cells[i], log_of(confidence[i]), {}});
    const Json top = likely.empty() ? Json() : about.at("top")[i];
    for (size_t rank = 0; rank < top.size() && rank < likely.size(); ++rank) {
      const Json number = log_of(top[rank][1]);
      if (!number.is_null()) tokens.back().likely.emplace_back(likely[rank][i], number);
    }
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

Json logprobs_of(AskKind kind, const Json& about, const std::vector<std::string>& cells,
                 const std::vector<std::vector<std::string>>& likely) {
  const std::vector<Token> tokens = tokens_of(about, cells, likely);
  if (kind == AskKind::chat) {
    Json content = Json::array();
    const auto entry = [](const std::string& text, const Json& logprob) {
      return Json{{"token", text}, {"logprob", logprob}, {"bytes", bytes_of(text)}};
    };
    for (const Token& token : tokens) {
      Json top = Json::array();
      for (const auto& [text, logprob] : token.likely) top.push_back(entry(text, logprob));
      content.push_back(entry(token.text, token.logprob));
      content.back()["top_logprobs"] = top;
    }
    return {{"content", content}, {"refusal", nullptr}};
  }
  Json texts = Json::array(), numbers = Json::array(), offsets = Json::array(), top;
  int64_t at = characters(about.at("text").get<std::string>()) -
               characters(about.at("completion").get<std::string>());
  for (const Token& token : tokens) {
    texts.push_back(token.text);
    numbers.push_back(token.logprob);
    if (!likely.empty()) {
      top.push_back(Json::object()); // two tokens of one text have one entry, the likelier one
      for (const auto& [text, logprob] : token.likely) {
        if (!top.back().contains(text)) top.back()[text] = logprob;
      }
    }
    offsets.push_back(at);
    at += characters(token.text);
  }
  return {{"tokens", texts},
          {"token_logprobs", numbers},
          {"top_logprobs", top},
          {"text_offset", offsets}};
}

} // namespace dllm::cli
