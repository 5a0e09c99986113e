#include "asked.h"

#include "../options/names.h"
#include "../options/schema_keys.h"
#include "shallow_json.h"
#include "tool_calls.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostTexts = 128;  // of one request
constexpr int64_t kUsualTokens = 64; // of an answer whose request names no number
constexpr size_t kMostStops = 16;

[[noreturn]] void refuse(const std::string& message, const std::string& hint = "") {
  throw Failure(DLLM_INVALID_ARGUMENT, message, hint);
}

// Returns a text of an object; "" when it is absent or is not a text.
std::string text_at(const Json& object, const char* key) {
  const Json value = object.is_object() ? object.value(key, Json()) : Json();
  return value.is_string() ? value.get<std::string>() : "";
}

// Reads the fields of a body, and refuses those that nothing read.
class Body {
public:
  explicit Body(const std::string& text) {
    if (is_deep(text)) refuse("the body has more than 64 levels");
    json_ = Json::parse(text, nullptr, false);
    if (json_.is_discarded()) refuse("the body is not JSON");
    if (!json_.is_object()) refuse("the body is not a JSON object");
  }

  // Returns a field; null when it is absent.
  const Json& get(const char* key) {
    static const Json kNull;
    read_.insert(key);
    const auto found = json_.find(key);
    return found == json_.end() ? kNull : *found;
  }
  void ignore(std::initializer_list<const char*> keys) {
    for (const char* key : keys) read_.insert(key);
  }
  std::string text(const char* key, const std::string& otherwise = "") {
    const Json& value = get(key);
    if (value.is_null()) return otherwise;
    if (!value.is_string()) refuse(std::string(key) + " is not a text");
    return value.get<std::string>();
  }
  bool flag(const char* key) {
    const Json& value = get(key);
    if (value.is_null()) return false;
    if (!value.is_boolean()) refuse(std::string(key) + " is not true or false");
    return value.get<bool>();
  }
  int64_t whole(const char* key, int64_t otherwise, int64_t least, int64_t most) {
    Json value = get(key);
    if (value.is_null()) return otherwise;
    constexpr double kExact = 9007199254740992; // 2^53
    if (value.is_number_float() && std::abs(value.get<double>()) <= kExact &&
        std::trunc(value.get<double>()) == value.get<double>())
      value = static_cast<int64_t>(value.get<double>()); // some clients write 2.0
    const bool is_whole = value.is_number_integer() && !value.is_number_unsigned();
    const bool fits = is_whole || (value.is_number_unsigned() &&
                                   value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
    if (!fits || value.get<int64_t>() < least || value.get<int64_t>() > most) {
      refuse(std::string(key) + " is " + value.dump() + ", not a whole number from " +
             std::to_string(least) + " to " + std::to_string(most));
    }
    return value.get<int64_t>();
  }
  // A field whose only value without an effect is this one.
  void need_off(const char* key, const Json& off, const char* hint = "") {
    const Json& value = get(key);
    if (!value.is_null() && value != off)
      refuse(std::string(key) + " " + value.dump() + " is not supported here", hint);
  }
  void need_all_read() const {
    for (const auto& [key, value] : json_.items()) {
      if (!read_.contains(key))
        refuse("there is no field \"" + key + "\"", "settings of dllm are fields of \"dllm\"");
    }
  }

private:
  Json json_;
  std::set<std::string> read_;
};

// Returns the texts of a content: a text, or a list of parts of type text.
std::string content_text(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (content.is_null()) return "";
  if (!content.is_array()) refuse("the content of a message is not a text");
  std::string all;
  for (const Json& part : content) {
    if (text_at(part, "type") != "text" || !part.contains("text") || !part["text"].is_string())
      refuse("a part of a content is not {\"type\": \"text\", \"text\": ...}",
             "the model reads texts alone");
    all += part["text"].get<std::string>();
  }
  return all;
}

Json messages_of(Body& body) {
  const Json& given = body.get("messages");
  if (!given.is_array() || given.empty()) refuse("messages is not a list of messages");
  Json made = Json::array();
  for (const Json& one : given) {
    if (!one.is_object() || !one.contains("role") || !one["role"].is_string())
      refuse("a message is not an object with a role and a content");
    Json message = one;
    message["content"] = content_text(one.value("content", Json()));
    read_arguments(message);
    made.push_back(message);
  }
  return made;
}

std::vector<std::string> prompts_of(Body& body) {
  const Json& given = body.get("prompt");
  if (given.is_string()) return {given.get<std::string>()};
  const bool is_list = given.is_array() && !given.empty();
  if (!is_list || !std::ranges::all_of(given, [](const Json& one) { return one.is_string(); }))
    refuse("prompt is not a text or a list of texts", "lists of token ids are not read");
  return given.get<std::vector<std::string>>();
}

// The answer is what fills the place between two texts, so neither of them has holes.
void check_no_hole(const std::string& text, const char* name) {
  if (text.find("<mask") == std::string::npos) return;
  refuse(std::string(name) + " has \"<mask\", and the place to fill is next to it",
         "field text of POST /v1/infill takes a text with several holes");
}

// A text with holes as it is, or a prefix and a suffix around a hole.
std::string infill_text(Body& body, int64_t tokens) {
  const std::string whole = body.text("text");
  const std::string before = body.text("input_prefix", body.text("prefix")),
                    after = body.text("input_suffix", body.text("suffix"));
  if (!whole.empty() && !(before.empty() && after.empty()))
    refuse("text has its holes, and a prefix or suffix needs one", "send one of the two forms");
  check_no_hole(before, "the prefix");
  check_no_hole(after, "the suffix");
  return whole.empty() ? before + "<mask:" + std::to_string(tokens) + ">" + after : whole;
}

void take_stops(Body& body, Json& settings) {
  const Json& stop = body.get("stop");
  if (stop.is_null()) return;
  const Json list = stop.is_string() ? Json::array({stop}) : stop;
  const auto is_text = [](const Json& one) {
    return one.is_string() && !one.get_ref<const std::string&>().empty();
  };
  if (!list.is_array() || list.size() > kMostStops || !std::ranges::all_of(list, is_text))
    refuse("stop is not a text or a list of up to " + std::to_string(kMostStops) + " texts");
  if (!list.empty()) settings["stop"] = list;
}

// A bias of -100 bans a token.
void take_bias(Body& body, Json& settings) {
  const Json& bias = body.get("logit_bias");
  if (bias.is_null()) return;
  if (!bias.is_object()) refuse("logit_bias is not an object of token ids");
  Json banned = Json::array(), added = Json::array();
  for (const auto& [id, value] : bias.items()) {
    const bool is_id = !id.empty() && id.find_first_not_of("0123456789") == std::string::npos;
    if (!is_id) refuse("logit_bias has \"" + id + "\", which is not a token id");
    if (!value.is_number() || std::abs(value.get<double>()) > 100) {
      refuse("logit_bias of token " + id + " is " + value.dump() + ", expected -100 to 100",
             "-100 bans a token");
    }
    if (value.get<double>() == -100)
      banned.push_back(id);
    else if (value.get<double>() != 0)
      added.push_back(id + "=" + value.dump());
  }
  if (!banned.empty()) settings["suppress"] = banned;
  if (!added.empty()) settings["logit_bias"] = added;
}

void take_format(Body& body, Json& settings) {
  const Json& format = body.get("response_format");
  if (format.is_null()) return;
  const std::string type = text_at(format, "type");
  if (type == "text") return;
  if (type == "json_object") {
    settings["json_schema"] = R"({"type": "object"})";
    return;
  }
  if (type != "json_schema")
    refuse("response_format has the type \"" + type +
           "\", expected text, json_object or json_schema");
  const Json inner = format.value("json_schema", Json());
  const Json schema = inner.is_object() ? inner.value("schema", Json()) : Json();
  if (!schema.is_object()) refuse("response_format.json_schema has no schema");
  settings["json_schema"] = schema.dump();
}

// The settings of dllm itself are keys of kinds "request" and "submission", and canvas.
void take_own(Body& body, Json& settings, Asked& asked) {
  const Json& own = body.get("dllm");
  if (own.is_null()) return;
  if (!own.is_object()) refuse("dllm is not an object of settings");
  for (const auto& [key, value] : own.items()) {
    if (key == "canvas") {
      if (!value.is_boolean()) refuse("dllm.canvas is not true or false");
      asked.has_canvas = value.get<bool>();
    } else if (key == "priority" || key == "timeout") {
      asked.submission[key] = value;
    } else {
      take_setting(settings, key, value, "dllm." + key);
    }
  }
}

// A chat has a flag and a number of likely tokens. A completion has the number alone.
void take_logprobs(Body& body, AskKind kind, Json& settings, Asked& asked) {
  constexpr int64_t kMostLikely = 20;
  const bool is_chat = kind == AskKind::chat;
  asked.has_logprobs = is_chat ? body.flag("logprobs") : !body.get("logprobs").is_null();
  const char* key = is_chat ? "top_logprobs" : "logprobs";
  const int64_t likely = body.whole(key, 0, 0, kMostLikely);
  if (likely > 0 && !asked.has_logprobs)
    refuse("top_logprobs is " + std::to_string(likely) + " without logprobs",
           "send \"logprobs\": true");
  if (likely > 0) settings["top_logprobs"] = likely;
}

// Returns the number of tokens of an answer whose body names none.
int64_t usual_tokens(const Json& defaults) {
  return defaults.value("length", kUsualTokens);
}

Json common_settings(Body& body, AskKind kind, const Json& defaults, Asked& asked) {
  constexpr int64_t kMost = 1 << 20;
  Json settings = defaults;
  const int64_t tokens =
      body.whole("max_completion_tokens",
                 body.whole("max_tokens", usual_tokens(defaults), 0, kMost), 0, kMost);
  settings["length"] = tokens;
  // Temperature and the filters of the library.
  for (const Json& row : request_keys("draw")) {
    const auto key = row.at("name").get<std::string>();
    const Json& value = body.get(key.c_str());
    if (value.is_null()) continue;
    if (!value.is_number()) refuse(key + " is not a number");
    settings[key] = value;
  }
  take_stops(body, settings);
  take_bias(body, settings);
  take_format(body, settings);
  for (const char* key : {"frequency_penalty", "presence_penalty"}) body.need_off(key, 0);
  if (kind != AskKind::chat) body.need_off("best_of", 1);
  if (kind != AskKind::infill) take_logprobs(body, kind, settings, asked);
  take_own(body, settings, asked);
  if (kind == AskKind::infill) settings.erase("length");
  return settings;
}

// Takes the functions that a chat may call. A call that has to come is a constraint of the text.
void take_tools(Body& body, Json& settings, Asked& asked) {
  const Json tools = body.get("tools"), choice = body.get("tool_choice");
  if (tools.is_null() || (tools.is_array() && tools.empty())) {
    if (!choice.is_null() && choice != "none" && choice != "auto")
      refuse("tool_choice " + choice.dump() + " has no tools");
    return;
  }
  check_tools(tools);
  if (choice == "none") return;
  asked.tools = settings["tools"] = tools;
  if (choice.is_null() || choice == "auto") return;
  const Json function = choice.is_object() ? choice.value("function", Json()) : Json();
  const bool is_named = function.is_object() && function.value("name", Json()).is_string();
  if (choice != "required" && !is_named) {
    refuse(
        "tool_choice is " + choice.dump(),
        R"(write "none", "auto", "required" or {"type": "function", "function": {"name": ...}})");
  }
  if (settings.contains("json_schema"))
    refuse("a call has to come, and response_format asks for JSON", "send one of the two");
  settings["json_schema"] = schema_of_call(tools, is_named ? function["name"] : "");
}

// Returns the settings of the texts, without seeds.
std::vector<Json> texts_of(Body& body, const Json& settings, int64_t tokens, Asked& asked) {
  std::vector<Json> texts;
  const auto add = [&](const char* key, const Json& value) {
    Json one = settings;
    one[key] = value;
    texts.push_back(one);
  };
  std::string& suffix = asked.suffix;
  switch (asked.kind) {
  case AskKind::chat:
    add("messages", messages_of(body));
    take_tools(body, texts.back(), asked);
    break;
  case AskKind::infill:
    add("infill", infill_text(body, body.whole("max_tokens", tokens, 0, 1 << 20)));
    break;
  case AskKind::completion:
    suffix = body.text("suffix");
    check_no_hole(suffix, "suffix");
    for (const std::string& prompt : prompts_of(body)) {
      if (suffix.empty()) {
        add("prompt", prompt);
        continue;
      }
      check_no_hole(prompt, "prompt");
      const std::string hole = "<mask:" + settings.at("length").dump() + ">";
      add("infill", prompt + hole + suffix);
      texts.back().erase("length");
    }
  }
  return texts;
}

} // namespace

void take_setting(Json& settings, const std::string& key, const Json& value,
                  const std::string& where) {
  for (const char* other : {"template", "template_name", "prompt", "messages", "infill"}) {
    if (key == other) refuse(where + " is not a setting of a request here");
  }
  settings[key] = key == "json_schema" && value.is_object() ? Json(value.dump()) : value;
}

bool has_constraint(const Json& settings) {
  return std::ranges::any_of(request_keys("constraint"), [&](const Json& key) {
    return settings.contains(key.at("name").get<std::string>());
  });
}

Asked read_asked(AskKind kind, const std::string& text, int64_t random_seed,
                 const DefaultsOf& defaults_of) {
  Body body(text);
  Asked asked;
  asked.kind = kind;
  asked.model = body.text("model");
  const Json& defaults = defaults_of(asked.model);
  asked.is_stream = body.flag("stream");
  const Json& stream = body.get("stream_options");
  if (!stream.is_null()) {
    if (!stream.is_object()) refuse("stream_options is not an object");
    asked.has_usage = stream.value("include_usage", Json(false)) == Json(true);
  }
  if (kind == AskKind::completion) asked.has_echo = body.flag("echo");
  const int64_t count = body.whole("n", 1, 1, kMostTexts);
  const int64_t usual_seed = defaults.value("seed", random_seed);
  const int64_t seed = body.whole("seed", usual_seed, INT64_MIN, INT64_MAX);
  const Json settings = common_settings(body, kind, defaults, asked);
  if (asked.has_echo && asked.has_logprobs)
    refuse("echo and logprobs together are not supported",
           "tokens of a prompt have no probability here; send one of the two");
  for (const Json& one : texts_of(body, settings, usual_tokens(defaults), asked)) {
    for (int64_t i = 0; i < count; ++i) {
      asked.requests.push_back(one);
      asked.requests.back()["seed"] =
          static_cast<int64_t>(static_cast<uint64_t>(seed) + static_cast<uint64_t>(i));
    }
  }
  if (std::ssize(asked.requests) > kMostTexts)
    refuse("the request asks for " + std::to_string(asked.requests.size()) + " texts, at most " +
           std::to_string(kMostTexts) + " are answered");
  if (const std::string client = body.text("user"); !client.empty())
    asked.submission["client"] = client;
  body.need_off("store", false, "answers are not stored here");
  body.need_off("reasoning_effort", "none");
  body.need_off("verbosity", "medium");
  body.need_off("service_tier", "auto");
  body.ignore({"metadata", "parallel_tool_calls", "safety_identifier", "prompt_cache_key"});
  body.need_all_read();
  return asked;
}

} // namespace dllm::cli
