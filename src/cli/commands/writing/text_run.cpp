#include "text_run.h"

#include "../../options/names.h"
#include "../../options/schema_keys.h"
#include "../../pictures/pictures.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <sstream>
#include <unistd.h>
#include <vector>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

Json values_of(const Context& context, const std::string& kind) {
  return Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_to_json(context.options(kind), out, err);
  }));
}

// Adds what the user typed of a kind, without the keys in `without`.
void add_typed(Json& settings, const Context& context, const std::string& kind,
               std::initializer_list<const char*> without) {
  const Json values = values_of(context, kind);
  for (const auto& [key, value] : values.items()) {
    const bool left_out =
        std::ranges::any_of(without, [&own = key](const char* k) { return own == k; });
    if (!left_out && context.typed(kind, key)) settings[key] = value;
  }
}

// Returns the texts of a list, which has commas between them, or is a JSON array.
Json listed_texts(const std::string& word) {
  if (word.starts_with("[")) {
    const Json array = Json::parse(word, nullptr, false);
    if (array.is_array()) return array;
  }
  Json texts = Json::array();
  std::istringstream parts(word);
  for (std::string text; std::getline(parts, text, ',');) texts.push_back(text);
  return texts;
}

// Returns the value of a key that the user typed as a word.
Json typed_value(const Json& key, const std::string& word) {
  if (key.at("type") == "list") return listed_texts(word);
  if (key.at("type") != "str") return Json::parse(word, nullptr, false);
  const bool is_file = key.at("name") == "grammar"
                           ? word.find("::=") == std::string::npos
                           : key.value("json", false) && !word.starts_with("{");
  return is_file ? read_all(word) : word;
}

// The key that --until sets. A flag --stop would be short for --slot.stop.
constexpr const char* kUntilKey = "stop";

// Returns the settings of kind "request" that the user typed.
Json typed_settings(const Context& context) {
  Json settings = Json::object();
  add_typed(settings, context, "decoder",
            {"policy", "slots", "trace", "trace_bytes", "on_change", "gen_length",
             "adapter_folders", "adapter_bytes"});
  const Json before = settings;
  add_typed(settings, context, "slot", {"seed", "stop", "suppress", "gen_length"});
  const auto take = [&](const char* kind, const char* key, const char* own) {
    if (context.typed(kind, key)) settings[own] = Json::parse(context.option(kind, key));
  };
  take("decoder", "gen_length", "length");
  take("slot", "gen_length", "length");
  take("slot", "stop", "stop_ids");
  if (context.typed("slot", "suppress")) { // in addition to the decoder's
    Json all = before.value("suppress", Json::array());
    for (const Json& id : Json::parse(context.option("slot", "suppress"))) all.push_back(id);
    settings["suppress"] = all;
  }
  if (context.has("length")) {
    const int64_t length = context.number("length");
    if (length < 1) throw UsageFailure("--length takes 1 and more, not " + std::to_string(length));
    settings["length"] = length;
  }
  if (context.typed("until")) {
    if (context.text("until").empty())
      throw UsageFailure("--until takes a text that ends the answer, not an empty one");
    settings[kUntilKey] = {context.text("until")};
  }
  for (const char* group : {"end", "constraint"}) {
    for (const Json& key : request_keys(group)) {
      const std::string name = key.at("name"), flag = dashed(name);
      if (name != kUntilKey && context.has(flag))
        settings[name] = typed_value(key, context.text(flag));
    }
  }
  return settings;
}

std::string policy_of(const Context& context) {
  if (context.typed("policy") || context.typed("decoder", "policy") ||
      context.typed("decoder", "attention"))
    return Json::parse(context.option("decoder", "policy")).get<std::string>();
  return "auto";
}

// Fails for a text that is not UTF-8.
std::string strict_json(const Json& values) {
  for (const auto& [key, value] : values.items()) {
    try {
      value.dump();
    } catch (const Json::type_error&) {
      const char* const verb = key.ends_with('s') ? " are not UTF-8" : " is not UTF-8";
      throw UsageFailure("the " + key + verb,
                         "text of another encoding: iconv -f WINDOWS-1252 -t UTF-8");
    }
  }
  return values.dump();
}

Owned<dllm_options> make_options(const std::string& kind, const Json& values) {
  auto options = make<dllm_options>([&](dllm_options** out, dllm_error* err) {
    return dllm_options_new(kind.c_str(), out, err);
  });
  const std::string json = strict_json(values);
  call([&](dllm_error* err) {
    return dllm_options_set_json(options.get(), json.data(), static_cast<int64_t>(json.size()),
                                 err);
  });
  return options;
}

Owned<dllm_generator> make_generator(const Context& context, const Session& session,
                                     const std::string& policy, int64_t slots, bool trace) {
  Json values = {{"policy", policy}, {"slots", slots}, {"trace", trace}};
  for (const char* key : {"slots", "trace_bytes", "adapter_folders", "adapter_bytes"}) {
    if (context.typed("decoder", key)) values[key] = Json::parse(context.option("decoder", key));
  }
  const auto options = make_options("generator", values);
  return make<dllm_generator>([&](dllm_generator** out, dllm_error* err) {
    return dllm_generator_new(session.model.get(), session.tokenizer.get(), options.get(), out,
                              err);
  });
}

Json description(dllm_generator* generator, int64_t number) {
  return Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_generator_describe(generator, number, out, err);
  }));
}

// Returns the number of steps that a policy takes for `open` open positions, or 0 when it depends
// on the predictions.
int64_t planned_steps(const Json& request) {
  const auto policy = request.at("policy").get<std::string>();
  const auto open = request.at("open").get<int64_t>();
  const int64_t steps = request.at("settings").value("steps", int64_t{0});
  if (policy == "autoregressive") return open;
  if (policy == "low_confidence") return std::min(steps, open);
  return policy == "random" || policy == "ancestral" ? steps : 0;
}

// An option of every decoder that a policy does not use.
struct Unused {
  const char *policy, *key, *reason;
};
constexpr const char* kOneByOne =
    "policy autoregressive decides one token after another; low_confidence and bd3lm have blocks "
    "and steps";
constexpr const char* kWindow =
    "policy wedlm has no blocks and takes the steps that its window needs; low_confidence and "
    "bd3lm have both";
constexpr Unused kUnused[] = {
    {"autoregressive", "block_length", kOneByOne},
    {"autoregressive", "steps", kOneByOne},
    {"wedlm", "block_length", kWindow},
    {"wedlm", "steps", kWindow},
    {"editflow", "block_length", "policy editflow edits the whole canvas in each step"},
    {"editflow", "cache", "policy editflow computes the whole canvas in each step"},
    {"uniform", "cache", "policy uniform computes the whole canvas in each step"},
};

void note_unused(const Context& context, const std::string& policy) {
  for (const Unused& unused : kUnused) {
    if (policy != unused.policy) continue;
    const bool of_decoder = context.typed("decoder", unused.key);
    note_typed(context, of_decoder ? "decoder" : "slot", unused.key, unused.reason);
  }
}

} // namespace

TextRun::TextRun(Context& context, const Session& session, int64_t slots, bool trace)
    : context_(context), session_(session), policy_(policy_of(context)),
      typed_(typed_settings(context)),
      generator_(make_generator(context, session, policy_, slots, trace)),
      decoder_(make<dllm_decoder>([&](dllm_decoder** out, dllm_error* err) {
        return dllm_generator_decoder(generator_.get(), out, err);
      })) {
  const Json about = description(generator_.get(), -1);
  const bool is_typed = policy_ != "auto";
  policy_ = about.at("policy").get<std::string>();
  note_unused(context, policy_);
  const std::string line =
      is_typed ? misfit_line(context, about) : policy_line(context, session, about);
  if (!line.empty()) say(line);
}

void TextRun::say(const std::string& line) const {
  if (!context_.flag("quiet") && !context_.json()) std::fprintf(stderr, "%s\n", line.c_str());
}

int64_t TextRun::add(Json settings, dllm_task* task) {
  Json all = typed_;
  all.update(settings);
  for (const auto& [key, value] : settings.items()) {
    if (value.is_null()) all.erase(key);
  }
  // The kind of the policy has its own options too, also when the library chose it.
  const Json own = all.value("policy", Json("auto"));
  if (own == "auto" || !own.is_string()) all["policy"] = policy_;
  const auto options = make_options("request:" + all["policy"].get<std::string>(), all);
  int64_t number = 0;
  call([&](dllm_error* err) {
    return dllm_generator_add(generator_.get(), options.get(), task, &number, err);
  });
  say_settings(number);
  return number;
}

void TextRun::say_settings(int64_t number) {
  if (said_settings_) return;
  said_settings_ = true;
  const Json request = describe(number);
  const Json from_file = request.at("from_file");
  std::string line, left_out;
  const auto join = [](std::string& to, const char* between, const std::string& more) {
    to += (to.empty() ? "" : between) + more;
  };
  const Json taken = from_file.at("taken");
  for (const auto& [key, value] : taken.items())
    join(line, ", ", key + " " + (value.is_string() ? value.get<std::string>() : value.dump()));
  const Json file = session_.about.value("generation", Json::object());
  if (file.contains("eos_token_id") && request.at("end_tokens").size() > 0) {
    std::string ends = "end tokens";
    for (const Json& id : request.at("end_tokens")) ends += " " + id.dump();
    join(line, "; ", ends);
  }
  for (const Json& setting : from_file.at("left_out"))
    join(left_out, ", ", setting.get<std::string>());
  if (!left_out.empty()) join(line, "; ", "left out: " + left_out);
  if (!line.empty()) say("from generation_config.json: " + line);
}

void TextRun::run(int64_t shown, size_t hidden, dllm_task* task) {
  LiveView view;
  const bool draws = !context_.flag("quiet") && !context_.json() && view.is_terminal();
  const int64_t planned = draws ? planned_steps(describe(shown)) : 0;
  Answer picture = endless_answer(session_.tokenizer.get());
  const auto show = [&] {
    if (!draws) return;
    std::vector<TokenCell> cells = cells_of(picture, canvas_of(decoder(), shown));
    cells.erase(cells.begin(),
                cells.begin() + static_cast<std::ptrdiff_t>(std::min(hidden, cells.size())));
    Progress progress = progress_of(decoder(), shown);
    progress.planned = planned;
    view.show(cells, progress);
  };
  show();
  for (int64_t open = 1; open > 0; show()) open = step(task);
  if (isatty(STDOUT_FILENO) != 0) view.clear(); // the text is printed only once
}

Json TextRun::settings(const Context& context) {
  Json made = {{"policy", policy_of(context)}};
  made.update(typed_settings(context));
  return made;
}

int64_t TextRun::step(dllm_task* task) {
  int64_t open = 0;
  call([&](dllm_error* err) { return dllm_generator_step(generator_.get(), task, &open, err); });
  return open;
}

bool TextRun::is_over(int64_t number) const {
  return decoder_metric(decoder(), number, "done") > 0;
}

Json TextRun::describe(int64_t number) const {
  return description(generator_.get(), number);
}

std::string TextRun::text(int64_t number, const char* part) const {
  return dllm::api::text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_generator_text(generator_.get(), number, part, out, err);
  });
}

void TextRun::remove(int64_t number) {
  call([&](dllm_error* err) { return dllm_generator_remove(generator_.get(), number, err); });
}

namespace {

// Adds an argument for each key of a group.
void add_flags(Command& command, const char* group) {
  for (const Json& key : request_keys(group)) {
    const std::string name = key.at("name");
    if (name == kUntilKey) continue;
    std::string sentence = key.at("doc");
    if (key.at("type") == "list") sentence += " Write commas between the texts, or a JSON array.";
    if (key.value("json", false)) sentence += " It may also be the name of a file.";
    command.arguments.push_back({Argument::Kind::text, dashed(name), "", std::move(sentence)});
  }
}

} // namespace

Command with_forms(Command command) {
  add_flags(command, "constraint");
  return command;
}

Command with_ends(Command command) {
  command.arguments.push_back({Argument::Kind::text, "until", "",
                               "stop when the answer holds this text, which is left out"});
  add_flags(command, "end");
  return command;
}

} // namespace dllm::cli
