#include "text/messages.h"

#include "base/error.h"
#include "text/unicode.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace dllm::text {
namespace {

// Other names of roles in data sets, and the names in templates.
constexpr std::pair<std::string_view, std::string_view> kRoleWords[] = {
    {"user", "user"},           {"human", "user"},          {"prompter", "user"},
    {"assistant", "assistant"}, {"gpt", "assistant"},       {"chatgpt", "assistant"},
    {"model", "assistant"},     {"bot", "assistant"},       {"ai", "assistant"},
    {"system", "system"},       {"developer", "developer"}, {"tool", "tool"}};

std::string plain_role(const std::string& role) {
  std::string lower = role;
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const auto& [name, plain] : kRoleWords) {
    if (lower == name) return std::string(plain);
  }
  return role;
}

// Returns the concatenated texts of the parts.
std::string joined_parts(const Json& parts, size_t message) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    if (part.is_string()) {
      text += part.get<std::string>();
      continue;
    }
    const auto said = part.is_object() ? part.find("text") : part.end();
    if (part.is_object() && said != part.end() && said->is_string()) {
      text += said->get<std::string>();
      continue;
    }
    const auto type = part.is_object() ? part.find("type") : part.end();
    const bool named = part.is_object() && type != part.end() && type->is_string();
    fail_with_hint(
        "write content as a text, or as a list of {\"type\": \"text\", \"text\": \"...\"}",
        Code::invalid_argument, "messages[{}]: content[{}] is {}, not a text", message, i,
        named ? replace_invalid(type->get<std::string>().substr(0, 40))
              : std::string(part.type_name()));
  }
  return text;
}

} // namespace

Json plain_messages(const Json& messages) {
  if (!messages.is_array()) return messages;
  Json made = Json::array();
  for (const Json& message : messages) {
    if (!message.is_object()) {
      made.push_back(message);
      continue;
    }
    Json plain = Json::object();
    for (const auto& [key, value] : message.items()) {
      if (value.is_null()) continue;
      if (key == "content" && value.is_structured()) // a list of parts, or one part
        plain[key] = joined_parts(value.is_array() ? value : Json::array({value}), made.size());
      else if (key == "role" && value.is_string())
        plain[key] = plain_role(value.get<std::string>());
      else
        plain[key] = value;
    }
    made.push_back(std::move(plain));
  }
  return made;
}

} // namespace dllm::text
