#include "text/chat/messages.h"

#include "base/ascii.h"
#include "base/error.h"
#include "text/unicode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::text {
namespace {

// Other names of roles in data sets, and the names in templates.
constexpr std::pair<std::string_view, std::string_view> kRoleWords[] = {
    {"user", "user"},           {"human", "user"},          {"prompter", "user"},
    {"assistant", "assistant"}, {"gpt", "assistant"},       {"chatgpt", "assistant"},
    {"model", "assistant"},     {"bot", "assistant"},       {"ai", "assistant"},
    {"system", "system"},       {"developer", "developer"}, {"tool", "tool"}};
// Roles of tools that stay as they are; each family has its own.
constexpr std::string_view kToolRoles[] = {
    "tool", "function", "ipython", "function_call", "tool_call", "tool_response", "observation"};

std::string plain_role(const std::string& role) {
  const std::string lower = lower_case(role);
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

// Returns the usual name of a member: ShareGPT has "from" for role, and "value" for content.
std::string plain_key(const Json& message, const std::string& key) {
  const auto lacks = [&](const char* name) {
    const auto found = message.find(name);
    return found == message.end() || found->is_null();
  };
  if (key == "from" && lacks("role")) return "role";
  if (key == "value" && lacks("content")) return "content";
  return key;
}

// Members in place of a content: what a message of the assistant calls or thinks.
constexpr const char* kInPlaceOfContent[] = {"tool_calls",        "tool_call", "function_call",
                                             "reasoning_content", "reasoning", "thinking"};

// Fails for a message without a content. A content that is null stands for an empty one.
void check_content(const Json& message, size_t index) {
  const auto has = [&](const char* name) { return message.contains(name); };
  if (has("content") || has("value")) return;
  if (std::any_of(std::begin(kInPlaceOfContent), std::end(kInPlaceOfContent), has)) return;
  std::vector<std::string> keys;
  for (const auto& [name, value] : message.items()) keys.push_back(name);
  fail_with_hint("write a message as {\"role\": \"user\", \"content\": \"...\"}",
                 Code::invalid_argument, "messages[{}] has no content; it has {}", index,
                 replace_invalid(fmt::format("{}", fmt::join(keys, ", "))));
}

Json plain_message(const Json& message, size_t index) {
  if (message.is_string())
    return {{"role", index % 2 == 0 ? "user" : "assistant"}, {"content", message}};
  if (!message.is_object()) return message;
  Json plain = Json::object();
  for (const auto& [name, value] : message.items()) {
    if (value.is_null()) continue;
    const std::string key = plain_key(message, name);
    if (key == "content" && value.is_structured()) // a list of parts, or one part
      plain[key] = joined_parts(value.is_array() ? value : Json::array({value}), index);
    else if (key == "role" && value.is_string())
      plain[key] = plain_role(value.get<std::string>());
    else
      plain[key] = value;
  }
  if (plain.contains("role")) check_content(message, index);
  return plain;
}

} // namespace

Json plain_messages(const Json& messages) {
  if (!messages.is_array()) return messages;
  Json made = Json::array();
  for (const Json& message : messages) made.push_back(plain_message(message, made.size()));
  return made;
}

bool is_known_role(std::string_view role) {
  const auto is = [role](const auto& word) { return word.second == role; };
  return std::any_of(std::begin(kRoleWords), std::end(kRoleWords), is) ||
         std::find(std::begin(kToolRoles), std::end(kToolRoles), role) != std::end(kToolRoles);
}

} // namespace dllm::text
