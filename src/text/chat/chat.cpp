// A Chat encodes messages to ids and marks the ids that the assistant writes.
#include "text/chat/chat.h"

#include "base/error.h"
#include "base/named_table.h"
#include "base/threads/meter.h"
#include "text/chat/messages.h"
#include "text/chat/named_templates.h"
#include "text/jinja/template.h"

#include <nlohmann/json.hpp>

#include <fmt/ranges.h>

#include <algorithm>

namespace dllm::text {

using jinja::Entries;
using jinja::Mark;
using jinja::MarkedText;

const Schema& chat_schema() {
  static const Schema schema(
      "chat",
      {option_str("template", "",
                  "chat template to use: chatml, llama3, qwen, alpaca, or the text of a template; "
                  "empty: the tokenizer's own"),
       option_str("name", "",
                  "name of the tokenizer's template to use; empty: the one called default"),
       option_bool("add_generation_prompt", false,
                   "end where the assistant begins to speak, for decoding"),
       option_json("tools", "a JSON list of the functions the assistant may call"),
       option_json(
           "variables",
           "a JSON object of further variables of the template: {\"enable_thinking\": false}; "
           "{\"strftime_now\": \"26 Nov 2026\"} fixes the date that a template writes")});
  return schema;
}

namespace {

Json json_option(const Options& options, const char* key, bool (Json::*fits)() const noexcept,
                 const char* what) {
  const std::string& text = options.str(key);
  if (text.empty()) return Json();
  Json value = parse_json_option(text, key);
  if (!(value.*fits)()) {
    fail(Code::invalid_argument, "option {} must be {}, found {}", key, what, value.type_name());
  }
  return value;
}

// Returns the name of the first template whose tokens the tokenizer has. The last one needs none.
std::string fitting_template(const Tokenizer& tokenizer) {
  for (const NamedTemplate& named : named_templates()) {
    const std::vector<std::string> tokens = template_tokens(named.text);
    if (std::ranges::all_of(
            tokens, [&](const std::string& token) { return tokenizer.find(token).has_value(); }))
      return named.name;
  }
  return named_templates().back().name;
}

jinja::Template choose(const Tokenizer& tokenizer, const Options& options, bool has_tools) {
  if (const std::string& own = options.str("template"); !own.empty()) {
    check_template_tokens(tokenizer, own);
    return {template_text(own), "chat template"};
  }
  const std::string& wanted = options.str("name");
  const std::vector<ChatSource>& sources = tokenizer.chat_templates();
  if (sources.empty()) {
    fail_with_hint("name one with the option template (--template " + fitting_template(tokenizer) +
                       "), or put a chat_template.jinja in the tokenizer's folder",
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
    fail_unnamed({"chat template", "in " + tokenizer.name()}, wanted,
                 names_of(sources, &ChatSource::name));
  }
  return {found->text, tokenizer.name() + ": chat template"};
}

void add(Entries& entries, const std::string& name, jinja::Value value) {
  entries.emplace_back(jinja::Value(name), std::move(value));
}

// Adds the special tokens, which the template may write as its own text.
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

// Returns the messages of a conversation in the form of plain_messages(). A system text next to
// them becomes the first message.
Json messages_of(const Json& conversation) {
  if (!conversation.is_object()) return plain_messages(conversation);
  const auto found = conversation.find("messages");
  if (found == conversation.end()) {
    fail(Code::invalid_argument, "a conversation is a list of messages, or an object with them");
  }
  Json messages = plain_messages(*found);
  const auto system = conversation.find("system");
  const bool has_system = !messages.empty() && messages.is_array() && messages[0].is_object() &&
                          messages[0].value("role", Json()) == "system";
  const bool has_text = system != conversation.end() && system->is_string() && *system != "";
  if (!has_text || has_system || !messages.is_array()) return messages;
  messages.insert(messages.begin(), Json{{"role", "system"}, {"content", *system}});
  return messages;
}

// Returns the tools of a conversation: a list, or a text of JSON with one; null without tools.
Json tools_of(const Json& conversation) {
  const Json tools = conversation.at("tools");
  if (tools.is_null() || tools == "") return Json();
  const Json list = tools.is_string() ? parse_json(tools.get<std::string>(), "tools") : tools;
  if (list.is_array()) return list;
  fail(Code::invalid_argument, "tools of a conversation must be a list, found {}",
       list.type_name());
}

std::vector<bool> assistants_of(const Json& messages) {
  std::vector<bool> assistants;
  for (const Json& message : messages) assistants.push_back(message.at("role") == "assistant");
  return assistants;
}

} // namespace

void check_template_tokens(const Tokenizer& tokenizer, const std::string& name) {
  if (!is_template_name(name)) return;
  std::vector<std::string> missing;
  for (std::string& token : template_tokens(template_text(name))) {
    if (!tokenizer.find(token)) missing.push_back(std::move(token));
  }
  if (missing.empty()) return;
  fail_with_hint("use the template of the model, or alpaca, which needs no such tokens; or train a "
                 "tokenizer for it: dllm tokenizer-train --template " +
                     name,
                 Code::failed_precondition, "{} has no tokens {}, which chat template {} writes",
                 tokenizer.name(), fmt::join(missing, ", "), name);
}

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
  // Limits grow with the conversation, because its texts are copied a few times.
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

// Returns the text that the template writes before an answer of the assistant:
// "<|im_start|>assistant\n".
std::string Chat::opening(const Entries& variables, const MarkedText& text, int64_t bytes,
                          const Task* task) const {
  try {
    const MarkedText other = render(variables, !opens_, bytes, task);
    const std::string& longer = opens_ ? text.bytes() : other.bytes();
    const std::string& shorter = opens_ ? other.bytes() : text.bytes();
    if (longer.starts_with(shorter)) return longer.substr(shorter.size());
  } catch (const Error&) {
    check_task(task);
    // Some templates refuse two messages of the assistant in a row.
  }
  return {};
}

ChatRow Chat::row(const Json& conversation, const Task* task) const {
  constexpr Mark kData{Mark::kData, false};
  const Json messages = messages_of(conversation);
  Entries variables;
  add(variables, "messages", jinja::from_messages(messages));
  Json tools = tools_;
  if (conversation.is_object() && conversation.contains("tools")) tools = tools_of(conversation);
  add(variables, "tools", jinja::from_json(tools, kData));
  add(variables, "documents", jinja::Value::none());
  add_special(variables, *tokenizer_);
  if (variables_.is_object()) {
    for (const auto& [name, value] : variables_.items()) {
      const bool is_date = name == "strftime_now" && value.is_string();
      add(variables, name,
          is_date ? jinja::fixed_text_function(value.get<std::string>())
                  : jinja::from_json(value, kData));
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

namespace {

struct SpokenPart {
  size_t begin, end; // bytes
};

// Returns true when the template wrote every byte of [begin, end).
bool is_template(const MarkedText& text, size_t begin, size_t end) {
  const auto& runs = text.runs();
  auto run = std::upper_bound(runs.begin(), runs.end(), begin,
                              [](size_t at, const MarkedText::Run& r) { return at < r.end; });
  for (; run != runs.end() && begin < end; begin = run->end, ++run) {
    if (run->mark.message != Mark::kTemplate) return false;
  }
  return true;
}

std::vector<SpokenPart> marked_by_template(const MarkedText& text) {
  std::vector<SpokenPart> stretches;
  size_t begin = 0;
  for (const MarkedText::Run& run : text.runs()) {
    if (run.mark.spoken) {
      if (!stretches.empty() && stretches.back().end == begin) {
        stretches.back().end = run.end;
      } else {
        stretches.push_back({begin, run.end});
      }
    }
    begin = run.end;
  }
  return stretches;
}

// Returns the end of the answer: the end of the template's first special token after `end`, unless
// another message comes before it.
size_t extend(const Tokenizer& tokenizer, const std::vector<TextPart>& parts,
              const MarkedText& text, size_t end) {
  const auto first = std::lower_bound(parts.begin(), parts.end(), end,
                                      [](const TextPart& p, size_t at) { return p.begin < at; });
  for (auto part = first; part != parts.end(); ++part) {
    if (part->id < 0 || !tokenizer.is_special(part->id)) continue;
    return is_template(text, end, part->end) ? part->end : end;
  }
  return end;
}

// Returns the beginning of the answer, which is the end of the last opening between `floor` and
// `begin`.
size_t retreat(const MarkedText& text, const std::string& opening, size_t floor, size_t begin) {
  if (opening.empty() || begin - floor < opening.size()) return begin;
  const std::string_view before = std::string_view(text.bytes()).substr(floor, begin - floor);
  const size_t found = before.rfind(opening);
  return found == std::string_view::npos ? begin : floor + found + opening.size();
}

// Returns the bytes of each answer: its message, and the template's text between and around its
// parts.
std::vector<SpokenPart> answers(const Tokenizer& tokenizer, const std::vector<TextPart>& parts,
                                const MarkedText& text, const MaskRules& rules) {
  std::vector<SpokenPart> stretches;
  size_t begin = 0;
  size_t floor = 0;           // end of the last message with text
  int32_t last = Mark::kData; // the message of the last run since a role or another message
  for (const MarkedText::Run& run : text.runs()) {
    const int32_t message = run.mark.message;
    if (message >= 0) {
      const bool answer = rules.assistants[static_cast<size_t>(message)];
      if (answer && last == message) {
        stretches.back().end = std::max(stretches.back().end, run.end);
      } else if (answer) {
        stretches.push_back({retreat(text, rules.opening, floor, begin), run.end});
      }
      floor = run.end;
      last = message;
    } else if (message == Mark::kData) {
      last = Mark::kData;
    }
    begin = run.end;
  }
  for (SpokenPart& stretch : stretches) stretch.end = extend(tokenizer, parts, text, stretch.end);
  return stretches;
}

// Returns the number of tokens of `whole` before byte `border` of the part. It counts the tokens
// that the text up to `border` also has; a token across the border is not counted.
size_t tokens_before(const Tokenizer& tokenizer, std::string_view part, size_t border,
                     bool at_start, const std::vector<int32_t>& whole, const Task* task) {
  if (border == 0) return 0;
  if (border >= part.size()) return whole.size();
  const std::vector<int32_t> head = tokenizer.encode_part(part.substr(0, border), at_start, task);
  const auto differs = std::mismatch(head.begin(), head.end(), whole.begin(), whole.end());
  return static_cast<size_t>(differs.first - head.begin());
}

} // namespace

ChatRow encode_chat(const Tokenizer& tokenizer, const MarkedText& text, const MaskRules& rules,
                    const Task* task) {
  ChatRow row;
  row.text = text.bytes();
  const std::vector<TextPart> parts = tokenizer.split(
      row.text, [&](size_t begin, size_t end) { return is_template(text, begin, end); }, task);
  const std::vector<SpokenPart> stretches =
      rules.by_generation ? marked_by_template(text) : answers(tokenizer, parts, text, rules);
  for (const TextPart& part : parts) {
    check_task(task);
    const size_t first = row.ids.size();
    const std::string_view plain =
        std::string_view(row.text).substr(part.begin, part.end - part.begin);
    const bool at_start = part.begin == 0;
    const std::vector<int32_t> ids =
        part.id >= 0 ? std::vector<int32_t>{part.id} : tokenizer.encode_part(plain, at_start, task);
    row.ids.insert(row.ids.end(), ids.begin(), ids.end());
    row.spoken.resize(row.ids.size(), 0);
    for (const SpokenPart& stretch : stretches) {
      if (stretch.end <= part.begin || stretch.begin >= part.end) continue;
      size_t from = 0, to = ids.size();
      if (part.id < 0) {
        const size_t begin = std::max(stretch.begin, part.begin) - part.begin;
        from = tokens_before(tokenizer, plain, begin, at_start, ids, task);
        to = tokens_before(tokenizer, plain, stretch.end - part.begin, at_start, ids, task);
      }
      for (size_t i = from; i < to; ++i) row.spoken[first + i] = 1;
    }
  }
  return row;
}

} // namespace dllm::text
