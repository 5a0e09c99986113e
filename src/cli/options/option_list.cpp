#include "option_list.h"

#include "../command.h"
#include "dllm/dllm.h"
#include "names.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::cli {

namespace {

using Json = nlohmann::ordered_json;

// A bare key of several kinds sets the kind that a user means: the first of these lists of which
// the command has a kind. Another key of a decoder and of a request (kind slot) is the decoder's,
// whose settings hold for a request without its own.
struct BareKey {
  const char* key;
  std::vector<std::vector<std::string>> kinds;
};
const std::vector<BareKey>& bare_keys() {
  static const std::vector<BareKey> keys = {
      {"steps", {{"decoder"}}},    {"block_length", {{"decoder"}}},
      {"suppress", {{"decoder"}}}, {"adapters", {{"decoder"}}},
      {"gen_length", {{"slot"}}},  {"seed", {{"slot"}, {"model", "adapter", "loader", "trainer"}}}};
  return keys;
}

std::string describe_key(const Json& key) {
  std::string line = key.at("doc").get<std::string>();
  if (key.contains("choices")) {
    line += " (";
    for (const Json& choice : key["choices"]) line += choice.get<std::string>() + " ";
    line.back() = ')';
  }
  const Json& fallback = key.at("default");
  if (!fallback.is_null() && !(fallback.is_string() && fallback.get<std::string>().empty()) &&
      !(fallback.is_array() && fallback.empty())) {
    line += " [" + (fallback.is_string() ? fallback.get<std::string>() : fallback.dump()) + "]";
  }
  return line;
}

// Returns the key of an option that sets a key, or "".
std::string bare_of(const Option& option) {
  return option.targets.empty() ? "" : option.targets[0].key;
}

// Returns the options of some kinds.
std::vector<Option*> of_kinds(std::vector<Option*> options, const std::vector<std::string>& kinds) {
  std::erase_if(options, [&](const Option* option) {
    return std::find(kinds.begin(), kinds.end(), option->targets[0].kind) == kinds.end();
  });
  return options;
}

// Returns the options that a bare key sets, of all options with this key; empty: it sets none.
std::vector<Option*> meant_by(const std::string& key, const std::vector<Option*>& options) {
  if (options.size() == 1) return options;
  for (const BareKey& bare : bare_keys()) {
    if (key != bare.key) continue;
    for (const std::vector<std::string>& kinds : bare.kinds) {
      const std::vector<Option*> meant = of_kinds(options, kinds);
      if (!meant.empty()) return meant;
    }
    return {};
  }
  return of_kinds(options, {"decoder", "slot"}).size() == options.size()
             ? of_kinds(options, {"decoder"})
             : std::vector<Option*>();
}

} // namespace

OptionList::OptionList(const Command& command, const std::map<std::string, std::string>& kinds) {
  add_argument({Argument::Kind::flag, "help", "", "show this and exit"});
  options_.back().names.insert(options_.back().names.begin(), "-h");
  for (const Argument& argument : command.arguments) add_argument(argument);
  add_argument({Argument::Kind::text, "config", "",
                "a JSON file of options: {\"steps\": 100, \"trainer\": {\"lr\": 1e-3}}; the "
                "command line has priority"});
  add_argument({Argument::Kind::flag, "json", "", "print JSON for machines"});
  for (const std::string& kind : command.kinds) {
    const std::string base = kind.substr(0, kind.find(':'));
    add_kind(command, base, kinds.at(base));
  }
  add_bare_names();
}

void OptionList::add_argument(const Argument& argument) {
  constexpr const char* kTypes[] = {"text", "number", "flag", "text", "f64"};
  Option option;
  if (argument.kind != Argument::Kind::positional) option.names = {"--" + argument.name};
  option.type = kTypes[static_cast<size_t>(argument.kind)];
  option.help = argument.sentence;
  if (argument.names != nullptr) option.help += listed(argument.names());
  if (!argument.fallback.empty()) option.help += " [" + argument.fallback + "]";
  option.group = argument.kind == Argument::Kind::positional ? "Arguments" : "Options";
  option.argument = argument.name;
  options_.push_back(std::move(option));
}

void OptionList::add_kind(const Command& command, const std::string& base,
                          const std::string& full) {
  Json schema = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_schema(full.c_str(), out, err);
  }));
  for (Json& key : schema.at("keys")) {
    const auto name = key.at("name").get<std::string>();
    const auto type = key.at("type").get<std::string>();
    for (const Command::Preset& preset : command.presets) {
      if (preset.kind == base && preset.key == name) key["default"] = preset.value;
    }
    for (const Command::Preset& shown : command.shown) {
      if (shown.kind == base && shown.key == name) key["default"] = shown.value;
    }
    options_.push_back({{option_name(base, name)},
                        type,
                        describe_key(key),
                        "Options of the " + base,
                        "",
                        {{base, name, type}}});
  }
}

// Adds a bare name for each key of only one kind, and for each key of several kinds that is in
// bare_keys().
void OptionList::add_bare_names() {
  std::map<std::string, std::vector<Option*>> owners;
  for (Option& option : options_) {
    if (!option.targets.empty()) owners[bare_of(option)].push_back(&option);
  }
  std::vector<Option> shared;
  for (auto& [key, options] : owners) {
    const std::string name = dashed("--" + key);
    if (find(name) != nullptr) continue; // an argument of the command's own
    const std::vector<Option*> meant = meant_by(key, options);
    if (meant.size() == 1) {
      meant[0]->names.push_back(name);
    } else if (meant.size() > 1) {
      Option all = *meant[0];
      all.names = {name};
      all.group = "Options";
      all.help = "the same for";
      all.targets.clear();
      for (const Option* option : meant) {
        all.help += " " + option->names[0];
        all.targets.push_back(option->targets[0]);
      }
      shared.push_back(std::move(all));
    }
  }
  // They come after the command's own options and before the options of kinds.
  const auto first = std::find_if(options_.begin(), options_.end(),
                                  [](const Option& o) { return !o.targets.empty(); });
  options_.insert(first, shared.begin(), shared.end());
}

const Option* OptionList::find(std::string_view name) const {
  const std::string wanted = dashed(std::string(name));
  for (const Option& option : options_) {
    if (std::find(option.names.begin(), option.names.end(), wanted) != option.names.end())
      return &option;
  }
  return nullptr;
}

// Returns "it is an option of policy threshold" for an option that the kinds of
// the command have with other policies, objectives or schedules; "" for others.
std::string OptionList::owners_of(const std::string& name) const {
  const std::pair<std::string, std::string> registries[] = {
      {"decoder", "policy"}, {"objective", "objective"}, {"schedule", "schedule"}};
  for (const auto& row : registries) {
    const std::string &base = row.first, &registry = row.second;
    const bool has_kind = std::any_of(options_.begin(), options_.end(), [&](const Option& option) {
      return !option.targets.empty() && option.targets[0].kind == base;
    });
    if (!has_kind) continue;
    std::vector<std::string> owners;
    for (const std::string& each : registry_names(registry)) {
      const Json schema = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
        return dllm_options_schema((base + ":" + each).c_str(), out, err);
      }));
      const bool has_key =
          std::any_of(schema.at("keys").begin(), schema.at("keys").end(), [&](const Json& key) {
            const auto own = key.at("name").get<std::string>();
            return dashed("--" + own) == dashed(name) || option_name(base, own) == dashed(name);
          });
      if (has_key) owners.push_back(each);
    }
    if (owners.empty()) continue;
    const std::string one = ": add --" + registry + " " + owners[0];
    return "it is an option of " + registry + " " + listed(owners) +
           (owners.size() == 1 ? one : ": name it with --" + registry);
  }
  return "";
}

// Returns the option for a name that other programs use, when this command has it; "" for others.
std::string OptionList::other_name(const std::string& name) const {
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"learning-rate", "lr"},
      {"lr-schedule", "trainer.schedule"},
      {"lr-scheduler", "trainer.schedule"},
      {"lr-scheduler-type", "trainer.schedule"},
      {"batch-size", "batch"},
      {"per-device-train-batch-size", "batch"},
      {"gradient-accumulation-steps", "accumulate"},
      {"max-grad-norm", "clip"},
      {"max-steps", "steps"},
      {"num-steps", "steps"},
      {"warmup-steps", "warmup"},
      {"epochs", "loader.epochs"},
      {"num-train-epochs", "loader.epochs"},
      {"save-steps", "save-every"},
      {"eval-steps", "eval-every"},
      {"output", "out"},
      {"output-dir", "out"},
      {"dataset", "data"},
      {"max-length", "length"},
      {"max-tokens", "length"},
      {"max-new-tokens", "length"},
      {"n-predict", "length"},
      {"num-samples", "samples"},
      {"vocab-size", "vocab"},
      {"hidden-size", "hidden"},
      {"num-layers", "layers"},
      {"num-hidden-layers", "layers"},
      {"lora-rank", "lora"},
      {"lora-r", "lora"},
      {"lora-alpha", "alpha"},
      {"model-name", "model"},
      {"model-path", "model"},
      {"pretrained", "from"},
  };
  const std::string typed = dashed(name);
  for (const auto& [other, own] : kNames) {
    if (typed == std::string("--") + other && find(std::string("--") + own) != nullptr)
      return std::string("--") + own;
  }
  return "";
}

std::string OptionList::no_such_option(const std::string& name) const {
  if (const std::string own = other_name(name); !own.empty())
    return no_such("option", name, {}) + "; did you mean " + own + "?";
  std::vector<std::string> full, names;
  for (const Option& option : options_) {
    if (!option.targets.empty() && dashed("--" + bare_of(option)) == dashed(name))
      full.push_back(option.names[0]);
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  if (!full.empty()) return no_such("option", name, {}) + "; it is one of " + listed(full);
  if (const std::string owners = owners_of(name); !owners.empty())
    return no_such("option", name, {}) + "; " + owners;
  return no_such("option", name, names);
}

namespace {

// Returns line and column of a byte of a text: "3:14".
std::string place_of(const std::string& text, size_t byte) {
  const size_t end = std::min(byte, text.size());
  const auto begin = text.begin(), at = begin + static_cast<std::ptrdiff_t>(end);
  const auto line = std::count(begin, at, '\n') + 1;
  const size_t before = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  return std::to_string(line) + ":" +
         std::to_string(before == std::string::npos ? end + 1 : end - before);
}

std::string word_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

} // namespace

ConfigFile::ConfigFile(const std::string& path) : path_(path), root_(Json::object()) {
  if (path_.empty()) return;
  const std::string text = read_all(path_);
  try {
    root_ = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const std::string what = error.what();
    const size_t detail = what.rfind(": ");
    throw UsageFailure(
        path_ + ":" + place_of(text, error.byte == 0 ? 0 : error.byte - 1) +
        " is not JSON: " + (detail == std::string::npos ? what : what.substr(detail + 2)));
  }
  if (!root_.is_object())
    throw UsageFailure(path_ + " holds " + root_.type_name() + ", not a JSON object");
}

std::string ConfigFile::text(const std::string& kind, const std::string& key) const {
  if (root_.contains(key) && root_[key].is_string()) return root_[key].get<std::string>();
  if (!root_.contains(kind) || !root_[kind].is_object()) return {};
  const Json& values = root_[kind];
  return values.contains(key) && values[key].is_string() ? values[key].get<std::string>()
                                                         : std::string();
}

std::vector<Setting> ConfigFile::settings(const OptionList& list,
                                          const std::map<std::string, std::string>& kinds) const {
  std::vector<Setting> found;
  for (const auto& [name, value] : root_.items()) {
    const std::string shown = path_ + ": " + name;
    if (kinds.count(name) != 0 && value.is_object()) {
      found.push_back({name, "", "json", value.dump(), shown});
      continue;
    }
    if (kinds.count(name) != 0 && list.find("--" + name) == nullptr) {
      throw UsageFailure(shown + " takes an object of its options, not " + value.type_name(),
                         "for example {\"" + name + "\": {}}");
    }
    const auto& all = list.all();
    const Option* option = list.find("--" + name);
    for (const Option& positional : all) {
      if (positional.names.empty() && positional.argument == name) option = &positional;
    }
    if (option == nullptr || name == "config" || name == "help") {
      std::vector<std::string> known;
      if (name == "config" || name == "help") {
        throw UsageFailure(path_ + ": --" + name + " is for the command line alone",
                           "remove it from the file");
      }
      for (const auto& [base, full] : kinds) known.push_back(base);
      for (const Option& o : all) {
        if (!o.names.empty())
          known.push_back(o.names.back().substr(o.names.back().find_first_not_of('-')));
      }
      throw UsageFailure(path_ + ": " + no_such("option", name, known));
    }
    if (!option->argument.empty()) {
      if (value.is_null()) continue; // as in run.json: the argument was not given
      if (value.is_structured()) {
        throw UsageFailure(shown + " takes a " + option->type + ", not " + value.type_name());
      }
      found.push_back({"", option->argument, option->type, word_of(value), shown});
      continue;
    }
    for (const Target& target : option->targets) {
      found.push_back(
          {target.kind, target.key, "json", value.dump(), shown, option->targets.size() > 1});
    }
  }
  return found;
}

} // namespace dllm::cli
