// This file parses the command line and --config to the option handles of a command.

#include "implied_choice.h"
#include "names.h"
#include "option_list.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <sstream>

namespace dllm::cli {

using Json = nlohmann::ordered_json;

namespace {

template <class T>
T parse_number(const std::string& shown, const std::string& word, const char* what,
               const char* hint = "") {
  T value{};
  const char* end = word.data() + word.size();
  const auto result = std::from_chars(word.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end)
    throw UsageFailure(shown + " takes " + what + ", not \"" + word + "\"", hint);
  return value;
}

constexpr const char* kPartOfEpoch = "--steps or --tokens ends a run within the text";

dllm_status set_json(dllm_options* options, const std::string& json, dllm_error* err) {
  return dllm_options_set_json(options, json.data(), static_cast<int64_t>(json.size()), err);
}

dllm_status set_word(dllm_options* options, const Setting& setting, dllm_error* err) {
  const auto& [kind, key, type, word, shown, shared] = setting;
  if (type == "json")
    return set_json(options, key.empty() ? word : Json{{key, Json::parse(word)}}.dump(), err);
  if (type == "i64") {
    return dllm_options_set_i64(
        options, key.c_str(),
        parse_number<int64_t>(shown, word, "a whole number", key == "epochs" ? kPartOfEpoch : ""),
        err);
  }
  if (type == "f64") {
    return dllm_options_set_f64(options, key.c_str(), parse_number<double>(shown, word, "a number"),
                                err);
  }
  if (type == "bool") {
    const bool yes = word == "true" || word == "1" || word == "yes" || word == "on";
    const bool no = word == "false" || word == "0" || word == "no" || word == "off";
    if (!yes && !no) throw UsageFailure(shown + " takes true or false, not \"" + word + "\"");
    return dllm_options_set_i64(options, key.c_str(), yes ? 1 : 0, err);
  }
  if (type == "list") {
    Json items = Json::array();
    std::stringstream parts(word);
    for (std::string item; std::getline(parts, item, ',');) items.push_back(item);
    return set_json(options,
                    Json{{key, items}}.dump(-1, ' ', false, Json::error_handler_t::replace), err);
  }
  return dllm_options_set_str(options, key.c_str(), word.c_str(), err);
}

} // namespace

// One command line.
class Parser {
public:
  Parser(const Command& command, int argc, char** argv)
      : command_(command), config_(peek(argc, argv, "config")), kinds_(choose_kinds(argc, argv)),
        list_(command, kinds_) {
    take_implied_kinds(argc, argv);
  }

  Parsed run(int argc, char** argv) {
    Parsed parsed;
    Context& context = parsed.context;
    read_words(context, argc, argv);
    if (flags_.count("help") != 0) {
      std::fputs(help_text(command_, list_).c_str(), stdout);
      parsed.done = 0;
      if (command_.after_help != nullptr) help_further(context);
      return parsed;
    }
    take_options(context);
    check_required(context);
    apply_options(context);
    return parsed;
  }

private:
  // Help is printed whatever the other options are.
  void help_further(Context& context) {
    try {
      take_options(context);
      apply_options(context);
      command_.after_help(context);
    } catch (const Failure& failure) {
      std::fprintf(stderr, "%s\n", failure.what());
    }
  }

  void take_options(Context& context) {
    for (const auto& [base, full] : kinds_) {
      context.options_[base] =
          make<dllm_options>([&, &kind = full](dllm_options** out, dllm_error* err) {
            return dllm_options_new(kind.c_str(), out, err);
          });
    }
    for (const Command::Preset& preset : command_.presets) {
      const std::string name = option_name(preset.kind, preset.key);
      context.settings_.push_back(
          {preset.kind, preset.key, list_.find(name)->type, preset.value, name});
    }
    presets_ = context.settings_.size();
    for (const Argument& argument : command_.arguments) {
      if (!argument.fallback.empty()) context.values_[argument.name] = argument.fallback;
    }
    take_config(context);
    take_typed(context);
  }

  void apply_options(Context& context) const {
    for (const Setting& setting : context.settings_) context.apply(setting);
    context.presets_ = presets_;
  }

  struct Typed {
    const Option* option;
    std::string shown, word;
  };

  // Returns the value of `--name VALUE` or `--name=VALUE` before the real parse, because the set of
  // options depends on it.
  static std::string peek(int argc, char** argv, const std::string& name) {
    const std::string plain = "--" + name, joined = plain + "=";
    std::string value;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word == plain && i + 1 < argc) value = argv[i + 1];
      if (word.rfind(joined, 0) == 0) value = word.substr(joined.size());
    }
    return value;
  }

  // Returns the value that the command line or --config has for the option that chooses the schema
  // of a kind; "" for none. shown: its name in messages.
  std::string chosen_word(int argc, char** argv, const std::string& base, const std::string& name,
                          std::string* shown = nullptr) const {
    std::string chosen = peek(argc, argv, name), where = "--" + name;
    if (chosen.empty()) chosen = peek(argc, argv, base + "." + name);
    if (chosen.empty()) {
      chosen = config_.text(base, name);
      where = config_.path() + ": " + name;
    }
    if (shown != nullptr) *shown = where;
    return chosen;
  }

  // Chooses the schema of each kind. "decoder:policy" is the kind decoder with the schema of the
  // value of --policy, --decoder.policy or --config.
  std::map<std::string, std::string> choose_kinds(int argc, char** argv) const {
    std::map<std::string, std::string> kinds;
    for (const std::string& kind : command_.kinds) {
      const size_t colon = kind.find(':');
      const std::string base = kind.substr(0, colon);
      kinds[base] = base;
      if (colon == std::string::npos) continue;
      const std::string name = kind.substr(colon + 1);
      std::string shown, chosen = chosen_word(argc, argv, base, name, &shown);
      const auto argument = std::find_if(command_.arguments.begin(), command_.arguments.end(),
                                         [&](const Argument& one) { return one.name == name; });
      const bool is_argument = argument != command_.arguments.end();
      if (chosen.empty() && is_argument) chosen = argument->fallback;
      if (chosen.empty()) continue;
      const std::vector<std::string> known =
          is_argument && argument->names != nullptr ? argument->names() : registry_names(name);
      if (std::find(known.begin(), known.end(), chosen) == known.end()) {
        throw UsageFailure(shown + ": " + no_such(name, chosen, known),
                           "there are " + listed(known) + others_named(base, name));
      }
      kinds[base] = base + ":" + chosen;
    }
    return kinds;
  }

  // Returns "; --trainer.schedule is another option" for each other kind with an option of this
  // name.
  std::string others_named(const std::string& base, const std::string& name) const {
    std::string others;
    for (const std::string& kind : command_.kinds) {
      const std::string other = kind.substr(0, kind.find(':'));
      if (other == base) continue;
      const Json schema = Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
        return dllm_options_schema(other.c_str(), out, err);
      }));
      for (const Json& key : schema.at("keys")) {
        if (key.at("name") == name)
          others += "; " + option_name(other, name) + " is another option";
      }
    }
    return others;
  }

  // Returns true when the command line has an option that the list lacks. word: the first word
  // that is neither an option nor a value of one.
  bool has_unknown_option(int argc, char** argv, std::string* word) const {
    bool has_unknown = false;
    for (int i = 1; i < argc; ++i) {
      const std::string own = argv[i];
      if (own == "--" || command_.passes_rest) break;
      if (own.rfind("--", 0) != 0) {
        if (word->empty()) *word = own;
        continue;
      }
      const bool joined = own.find('=') != std::string::npos;
      const Option* option = list_.find(own.substr(0, own.find('=')));
      has_unknown = has_unknown || option == nullptr;
      const bool follows = i + 1 < argc && std::string_view(argv[i + 1]).substr(0, 2) != "--";
      const bool is_flag = option != nullptr && option->type == "flag";
      if (!joined && !is_flag && follows) ++i;
    }
    return has_unknown;
  }

  // Takes the options of the policy that the model is decoded with, and of the objective of the run
  // that goes on, where the command line names neither and has an option that others lack.
  void take_implied_kinds(int argc, char** argv) {
    std::string word;
    const bool has_choice =
        std::any_of(command_.kinds.begin(), command_.kinds.end(),
                    [](const std::string& kind) { return kind.find(':') != std::string::npos; });
    if (!has_choice || !has_unknown_option(argc, argv, &word)) return;
    const std::string model = peek(argc, argv, "model"), out = peek(argc, argv, "out");
    for (const std::string& kind : command_.kinds) {
      const size_t colon = kind.find(':');
      if (colon == std::string::npos) continue;
      const std::string base = kind.substr(0, colon), name = kind.substr(colon + 1);
      if (!chosen_word(argc, argv, base, name).empty()) continue;
      std::string implied;
      if (name == "policy") implied = policy_for_model(model.empty() ? word : model);
      if (name == "objective") implied = objective_of_run(out);
      const std::vector<std::string> known = registry_names(name);
      if (std::find(known.begin(), known.end(), implied) != known.end())
        kinds_[base] = base + ":" + implied;
    }
    list_ = OptionList(command_, kinds_);
  }

  void read_words(Context& context, int argc, char** argv) {
    bool only_words = false;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (!only_words && word == "--") {
        only_words = true;
      } else if (!only_words && word.size() > 1 && word[0] == '-') {
        i += read_option(word, i + 1 < argc ? argv[i + 1] : nullptr);
      } else {
        words_.push_back(word);
        if (!command_.passes_rest) continue;
        context.rest_.assign(argv + i + 1, argv + argc);
        return;
      }
    }
  }

  // Reads an option and returns the number of the words after it that belong to it.
  int read_option(const std::string& word, const char* next) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const Option* option = list_.find(name);
    if (option == nullptr) throw UsageFailure(list_.no_such_option(name), help_hint());
    const bool joined = equals != std::string::npos;
    if (option->type == "flag") {
      if (joined) throw UsageFailure(name + " takes no value");
      flags_.insert(option->argument);
      return 0;
    }
    if (joined) return typed_.push_back({option, name, word.substr(equals + 1)}), 0;
    const bool follows = next != nullptr && std::string_view(next).substr(0, 2) != "--";
    if (!follows && option->type == "bool") return typed_.push_back({option, name, "true"}), 0;
    if (!follows) {
      throw UsageFailure(name + " needs a value",
                         next == nullptr
                             ? help_hint()
                             : "a value that begins with -- is written " + name + "=" + next);
    }
    return typed_.push_back({option, name, next}), 1;
  }

  std::string help_hint() const { return "dllm " + command_.name + " --help lists the options"; }

  void take_config(Context& context) {
    for (const Setting& setting : config_.settings(list_, kinds_)) {
      if (setting.kind.empty())
        set_argument(context, setting.key, setting.type, setting.word, setting.shown);
      else
        context.settings_.push_back(setting);
    }
  }

  void set_argument(Context& context, const std::string& name, const std::string& type,
                    const std::string& word, const std::string& shown) {
    if (type == "number" && !word.empty()) parse_number<int64_t>(shown, word, "a whole number");
    if (type == "f64" && !word.empty()) parse_number<double>(shown, word, "a number");
    if (type == "flag" && word != "true") return;
    context.values_[name] = type == "flag" ? "1" : word;
    context.typed_.insert(name);
  }

  void take_typed(Context& context) {
    for (const Typed& typed : typed_) {
      const Option& option = *typed.option;
      if (!option.argument.empty()) {
        set_argument(context, option.argument, option.type, typed.word, typed.shown);
        continue;
      }
      for (const Target& target : option.targets) {
        context.settings_.push_back({target.kind, target.key, target.type, typed.word, typed.shown,
                                     option.targets.size() > 1});
      }
    }
    for (const std::string& flag : flags_) set_argument(context, flag, "flag", "true", "--" + flag);
    take_words(context);
  }

  // Assigns words without dashes to the positional arguments, then to the arguments of
  // Command::words that no option has set.
  void take_words(Context& context) {
    std::vector<std::string> places;
    std::set<std::string> by_option;
    for (const Typed& typed : typed_) by_option.insert(typed.option->argument);
    for (const Argument& argument : command_.arguments) {
      if (argument.kind == Argument::Kind::positional) places.push_back(argument.name);
    }
    for (const std::string& name : command_.words) {
      if (by_option.count(name) == 0) places.push_back(name);
    }
    const bool repeats = !command_.arguments.empty() && command_.arguments.front().repeats;
    if (repeats && words_.size() > places.size()) {
      context.rest_.assign(words_.begin() + static_cast<std::ptrdiff_t>(places.size()),
                           words_.end());
      words_.resize(places.size());
    }
    if (words_.size() > places.size()) {
      throw UsageFailure("the word \"" + words_[places.size()] + "\" is one too many", help_hint());
    }
    for (size_t i = 0; i < words_.size(); ++i)
      set_argument(context, places[i], "text", words_[i], places[i]);
  }

  void check_required(const Context& context) const {
    for (const Argument& argument : command_.arguments) {
      if (!argument.required || context.has(argument.name)) continue;
      const bool word = argument.kind == Argument::Kind::positional;
      throw UsageFailure((word ? argument.name : "--" + argument.name) +
                             " is missing: " + argument.sentence,
                         "example: " + command_.example.substr(0, command_.example.find('\n')));
    }
  }

  const Command& command_;
  ConfigFile config_;
  std::map<std::string, std::string> kinds_;
  OptionList list_;
  std::vector<Typed> typed_;
  std::set<std::string> flags_;
  std::vector<std::string> words_;
  size_t presets_ = 0;
};

Parsed parse(const Command& command, int argc, char** argv) {
  return Parser(command, argc, argv).run(argc, argv);
}

void Context::apply(const Setting& setting) {
  dllm_options* options = options_.at(setting.kind).get();
  try {
    call([&](dllm_error* err) { return set_word(options, setting, err); });
  } catch (const UsageFailure&) {
    throw;
  } catch (const Failure& failure) {
    throw UsageFailure(setting.shown + ": " + failure.what(), failure.hint());
  }
}

namespace {

bool is_of(const Setting& setting, const std::string& kind, const std::string& key) {
  if (setting.kind != kind) return false;
  return setting.key == key || (setting.key.empty() && Json::parse(setting.word).contains(key));
}

} // namespace

void Context::change_kind(const std::string& kind, const std::string& full) {
  options_[kind] = make<dllm_options>([&](dllm_options** out, dllm_error* err) {
    return dllm_options_new(full.c_str(), out, err);
  });
  for (const Setting& setting : settings_) {
    if (setting.kind == kind) apply(setting);
  }
}

std::string Context::given() const {
  Json arguments = Json::object(), options = Json::object();
  for (const std::string& name : typed_) arguments[name] = text(name);
  for (size_t i = presets_; i < settings_.size(); ++i) {
    const auto& [kind, key, type, word, shown, shared] = settings_[i];
    Json keys = key.empty() ? Json::parse(word) : Json{{key, nullptr}};
    for (const auto& [name, value] : keys.items())
      options[kind][name] = Json::parse(option(kind, name));
  }
  return Json{{"arguments", arguments}, {"options", options}}.dump(-1, ' ', false,
                                                                   Json::error_handler_t::replace);
}

bool Context::take_argument(const std::string& name, const std::string& word) {
  if (typed(name)) return false;
  values_[name] = word;
  typed_.insert(name);
  return true;
}

bool Context::take_option(const std::string& kind, const std::string& key, const std::string& json,
                          const std::string& shown) {
  if (typed(kind, key)) return false;
  const Setting setting{kind, key, "json", json, shown};
  apply(setting);
  settings_.push_back(setting);
  return true;
}

bool Context::typed(const std::string& kind, const std::string& key) const {
  return std::any_of(settings_.begin() + static_cast<std::ptrdiff_t>(presets_), settings_.end(),
                     [&](const Setting& setting) { return is_of(setting, kind, key); });
}

bool Context::typed_alone(const std::string& kind, const std::string& key) const {
  return std::any_of(
      settings_.begin() + static_cast<std::ptrdiff_t>(presets_), settings_.end(),
      [&](const Setting& setting) { return !setting.shared && is_of(setting, kind, key); });
}

std::string Context::text(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string() : found->second;
}

bool Context::has(const std::string& name) const {
  const auto found = values_.find(name);
  return found != values_.end() && !found->second.empty();
}

bool Context::flag(const std::string& name) const {
  return has(name);
}

int64_t Context::number(const std::string& name) const {
  return parse_number<int64_t>("--" + name, text(name), "a whole number");
}

double Context::real(const std::string& name) const {
  return parse_number<double>("--" + name, text(name), "a number");
}

std::string Context::option(const std::string& kind, const std::string& key) const {
  const std::string all = dllm::cli::text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_to_json(options(kind), out, err);
  });
  return Json::parse(all).at(key).dump();
}

dllm_options* Context::options(const std::string& kind) const {
  return options_.at(kind).get();
}

} // namespace dllm::cli
