#include "text/chat.h"

#include "base/error.h"
#include "base/meter.h"
#include "text/jinja/value.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::text {

using jinja::Entries;
using jinja::Mark;
using jinja::MarkedText;

const Schema& chat_schema() {
  static const Schema schema(
      "chat",
      {option_str("template", "", "text of the template to use; empty: the tokenizer's own"),
       option_str("name", "", "which of the tokenizer's templates; empty: the one called default"),
       option_bool("add_generation_prompt", false,
                   "end where the assistant begins to speak, for decoding"),
       option_str("tools", "", "a JSON list of the functions the assistant may call"),
       option_str("variables", "",
                  "a JSON object of further variables of the template: {\"enable_thinking\": "
                  "false}")});
  return schema;
}

namespace {

Json json_option(const Options& options, const char* key, bool (Json::*fits)() const noexcept,
                 const char* what) {
  const std::string& text = options.str(key);
  if (text.empty()) return Json();
  Json value = parse_json(text, fmt::format("option {}", key));
  if (!(value.*fits)()) {
    fail(Code::invalid_argument, "option {} must be {}, found {}", key, what, value.type_name());
  }
  return value;
}

jinja::Template choose(const Tokenizer& tokenizer, const Options& options, bool has_tools) {
  if (!options.str("template").empty()) return {options.str("template"), "chat template"};
  const std::string& wanted = options.str("name");
  const std::vector<ChatSource>& sources = tokenizer.chat_templates();
  if (sources.empty()) {
    fail_with_hint("give one with the option template, or put a chat_template.jinja in the "
                   "tokenizer's folder",
                   Code::failed_precondition, "{} has no chat template", tokenizer.name());
  }
  const ChatSource* found = nullptr;
  for (const ChatSource& source : sources) {
    const bool by_default =
        source.name == "default" ? found == nullptr : has_tools && source.name == "tool_use";
    if (wanted.empty() ? by_default : source.name == wanted) found = &source;
  }
  if (found == nullptr && wanted.empty()) found = &sources[0];
  if (found == nullptr) {
    std::string names;
    for (const ChatSource& source : sources) names += (names.empty() ? "" : " ") + source.name;
    fail_with_hint("there is " + names, Code::not_found, "{} has no chat template {}",
                   tokenizer.name(), wanted);
  }
  return {found->text, tokenizer.name() + ": chat template"};
}

void add(Entries& entries, const std::string& name, jinja::Value value) {
  entries.emplace_back(jinja::Value(name), std::move(value));
}

// Tokens with a job are the template's own words.
void add_special(Entries& entries, const Tokenizer& tokenizer) {
  const SpecialIds& special = tokenizer.special();
  const std::pair<const char*, int32_t> rows[] = {{"bos_token", special.bos},
                                                  {"eos_token", special.eos},
                                                  {"pad_token", special.pad},
                                                  {"mask_token", special.mask}};
  for (const auto& [name, id] : rows) {
    if (id >= 0) add(entries, name, jinja::Value(std::string(tokenizer.token(id))));
  }
}

const Json& messages_of(const Json& conversation) {
  if (!conversation.is_object()) return conversation;
  const auto found = conversation.find("messages");
  if (found == conversation.end()) {
    fail(Code::invalid_argument, "a conversation is a list of messages, or an object with them");
  }
  return *found;
}

std::vector<bool> assistants_of(const Json& messages) {
  std::vector<bool> assistants;
  for (const Json& message : messages) assistants.push_back(message.at("role") == "assistant");
  return assistants;
}

} // namespace

std::vector<uint8_t> ChatRow::keep() const {
  std::vector<uint8_t> given;
  given.reserve(spoken.size());
  for (const uint8_t said : spoken) given.push_back(said == 0 ? 1 : 0);
  return given;
}

Chat::Chat(std::shared_ptr<const Tokenizer> tokenizer, const Options& options)
    : tokenizer_(std::move(tokenizer)),
      tools_(json_option(options, "tools", &Json::is_array, "a list")),
      variables_(json_option(options, "variables", &Json::is_object, "an object")),
      opens_(options.boolean("add_generation_prompt")) {
  template_ =
      std::make_unique<const jinja::Template>(choose(*tokenizer_, options, !tools_.is_null()));
}

MarkedText Chat::render(const Entries& variables, bool opens, int64_t bytes,
                        const Task* task) const {
  // Room that grows with the conversation: texts are copied a few times on their way.
  jinja::Limits limits;
  limits.steps += 64 * bytes;
  limits.bytes += 256 * bytes;
  if (const MeterRef& meter = current_meter(); meter != nullptr && meter->limit() > 0) {
    limits.bytes = std::clamp<int64_t>(meter->room(), 0, limits.bytes);
  }
  limits.task = task;
  Entries all = variables;
  add(all, "add_generation_prompt", jinja::Value(opens));
  return template_->render(all, limits);
}

// What the template writes when the assistant is to speak next: "<|im_start|>assistant\n".
std::string Chat::opening(const Entries& variables, const MarkedText& text, int64_t bytes,
                          const Task* task) const {
  try {
    const MarkedText other = render(variables, !opens_, bytes, task);
    const std::string& longer = opens_ ? text.bytes() : other.bytes();
    const std::string& shorter = opens_ ? other.bytes() : text.bytes();
    if (longer.starts_with(shorter)) return longer.substr(shorter.size());
  } catch (const Error&) {
    check_task(task);
    // Some templates refuse to let the assistant speak twice.
  }
  return {};
}

ChatRow Chat::row(const Json& conversation, const Task* task) const {
  constexpr Mark kData{Mark::kData, false};
  const Json& messages = messages_of(conversation);
  Entries variables;
  add(variables, "messages", jinja::from_messages(messages));
  Json tools = tools_;
  if (conversation.is_object() && conversation.contains("tools")) tools = conversation.at("tools");
  add(variables, "tools", jinja::from_json(tools, kData));
  add(variables, "documents", jinja::Value::none());
  add_special(variables, *tokenizer_);
  if (variables_.is_object()) {
    for (const auto& [name, value] : variables_.items()) {
      add(variables, name, jinja::from_json(value, kData));
    }
  }
  const auto bytes = static_cast<int64_t>(
      conversation.dump(-1, ' ', false, Json::error_handler_t::replace).size());
  const MarkedText text = render(variables, opens_, bytes, task);
  const std::vector<bool> assistants = assistants_of(messages);
  const bool any = std::find(assistants.begin(), assistants.end(), true) != assistants.end();
  MaskRules rules{assistants, template_->has_generation(), {}};
  if (any && !rules.by_generation) rules.opening = opening(variables, text, bytes, task);
  return encode_chat(*tokenizer_, text, rules, task);
}

} // namespace dllm::text
