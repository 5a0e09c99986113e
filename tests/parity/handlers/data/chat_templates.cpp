// chat_templates: messages rendered by templates. `cases` name a template by the model it comes
// from (an asset), `own_templates` carry theirs; "error" entries must fail, with "message" in the
// text when there is one.

#include "base/error.h"
#include "base/files.h"
#include "ckpt/gguf/gguf.h"
#include "handlers.h"
#include "runner.h"
#include "text/jinja/template.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <optional>

namespace dllm::parity {
namespace {

using namespace text::jinja;

// The template of a model: of its tokenizer's configuration, or in the metadata of its GGUF file.
std::optional<std::string> template_of(Topic& topic, const std::string& model) {
  const std::string config = topic.asset("tokenizers/" + model + "/tokenizer_config.json");
  if (!config.empty()) {
    return parse_json(read_text(config), config).at("chat_template").get<std::string>();
  }
  const std::string gguf = topic.asset(model + ".gguf");
  if (gguf.empty()) return std::nullopt;
  return ckpt::GgufFile(map_file(gguf), gguf).text("tokenizer.chat_template");
}

void add(Entries& entries, const std::string& name, Value value) {
  entries.emplace_back(Value(name), std::move(value));
}

// A list named in `message_lists`, or the messages themselves.
const Json& messages_of(const Topic& topic, const Json& entry) {
  const Json& messages = entry.at("messages");
  return messages.is_string() ? topic.cases().at("message_lists").at(messages.get<std::string>())
                              : messages;
}

Entries variables_of(const Topic& topic, const Json& entry) {
  constexpr Mark kData{Mark::kData, false};
  Entries variables;
  add(variables, "messages", from_messages(messages_of(topic, entry)));
  add(variables, "add_generation_prompt", Value(entry.value("add_generation_prompt", false)));
  add(variables, "tools",
      entry.value("tools", false) ? from_json(topic.cases().at("tools"), kData) : Value::none());
  if (entry.contains("enable_thinking") && !entry.at("enable_thinking").is_null()) {
    add(variables, "enable_thinking", from_json(entry.at("enable_thinking"), kData));
  }
  // Templates of no model get the tokens most of them are written for.
  const Json own = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const Json& tokens =
      entry.contains("template_of")
          ? topic.cases().at("token_strings").at(entry.at("template_of").get<std::string>())
          : own;
  for (const auto& [name, token] : tokens.items()) add(variables, name, from_json(token, {}));
  // The environment that rendered the cases, by the description of the topic.
  const auto about = topic.cases().value("description", "");
  if (about.find("strftime_now NOT defined") != std::string::npos)
    add(variables, "strftime_now", Value::undefined("strftime_now"));
  return variables;
}

void run_entry(Case& c, const Topic& topic, const Json& entry, const std::string& source) {
  std::string text;
  std::optional<std::string> refused;
  try {
    text = Template(source, "template").render(variables_of(topic, entry)).bytes();
  } catch (const Error& error) {
    refused = error.text();
  }
  if (!entry.contains("error")) {
    c.check(!refused.has_value(), refused.value_or(""));
    return c.equal(text, entry.at("text").get<std::string>(), "text");
  }
  c.check(refused.has_value(), "rendered \"" + text + "\", expected an error");
  const std::string message = entry.value("message", "");
  c.check(refused.value_or("").find(message) != std::string::npos,
          fmt::format("error \"{}\", expected \"{}\" in it", refused.value_or(""), message));
}

} // namespace

void run_chat_templates(Topic& topic) {
  for (const Json& entry : topic.list("cases")) {
    topic.run(entry, [&](Case& c) {
      const auto model = entry.at("template_of").get<std::string>();
      const auto source = template_of(topic, model);
      c.needs_asset(model, source.has_value());
      run_entry(c, topic, entry, *source);
    });
  }
  for (const Json& entry : topic.list("own_templates")) {
    topic.run(entry, [&](Case& c) {
      run_entry(c, topic, entry, entry.at("template").get<std::string>());
    });
  }
  topic.ignore("tools"); // given to templates
}

} // namespace dllm::parity
