// Command lines from schemas: every key of every kind a command takes is an option with its sentence and default.

#include "command.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <deque>
#include <fstream>
#include <sstream>

namespace dllm::cli {

using Json = nlohmann::ordered_json;

namespace {

// The value of `--name VALUE` or `--name=VALUE` before the real parse: kinds may depend on it.
std::string peek(int argc, char** argv, const std::string& name) {
  const std::string plain = "--" + name, joined = plain + "=";
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == plain && i + 1 < argc) return argv[i + 1];
    if (word.rfind(joined, 0) == 0) return word.substr(joined.size());
  }
  return {};
}

Json schema_of(const std::string& kind) {
  return Json::parse(text([&](dllm_buffer* out, dllm_error* err) { return dllm_options_schema(kind.c_str(), out, err); }));
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

template <class T>
T parse_number(const std::string& name, const std::string& word, const char* what) {
  T value{};
  const char* end = word.data() + word.size();
  const auto result = std::from_chars(word.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) {
    throw Failure(DLLM_INVALID_ARGUMENT, "--" + name + " takes " + what + ", not \"" + word + "\"");
  }
  return value;
}

void set_typed(dllm_options* options, const std::string& key, const std::string& type, const std::string& word) {
  call([&](dllm_error* err) -> dllm_status {
    if (type == "i64") return dllm_options_set_i64(options, key.c_str(), parse_number<int64_t>(key, word, "a whole number"), err);
    if (type == "f64") return dllm_options_set_f64(options, key.c_str(), parse_number<double>(key, word, "a number"), err);
    if (type == "bool") {
      const bool yes = word == "true" || word == "1" || word == "yes" || word == "on";
      const bool no = word == "false" || word == "0" || word == "no" || word == "off";
      if (!yes && !no) throw Failure(DLLM_INVALID_ARGUMENT, "--" + key + " takes true or false, not \"" + word + "\"");
      return dllm_options_set_i64(options, key.c_str(), yes ? 1 : 0, err);
    }
    if (type == "list") {
      Json items = Json::array();
      std::stringstream parts(word);
      for (std::string item; std::getline(parts, item, ',');) items.push_back(item);
      const std::string json = Json{{key, items}}.dump();
      return dllm_options_set_json(options, json.data(), static_cast<int64_t>(json.size()), err);
    }
    return dllm_options_set_str(options, key.c_str(), word.c_str(), err);
  });
}

}  // namespace

// One command line: declares the options with CLI11, then carries what was typed into option handles.
class Parser {
 public:
  Parser(const Command& command, int argc, char** argv) : command_(command), app_(command.summary, "dllm " + command.name) {
    app_.footer("Example:\n  " + command.example);
    app_.set_help_flag("-h,--help", "show this and leave");
    app_.add_option("--config", config_, "a JSON file with the same keys: {\"trainer\": {\"lr\": 1e-3}}");
    app_.add_flag("--json", json_, "print JSON for machines");
    for (const Argument& argument : command.arguments) declare(argument);
    for (const std::string& kind : command.kinds) load_kind(kind, argc, argv);
    declare_keys();
  }

  Parsed run(int argc, char** argv) {
    Parsed parsed;
    int own = argc;
    for (int i = 1; command_.passes_rest && i < argc && own == argc; ++i) {
      if (argv[i][0] != '-') own = i + 1;
      else if (takes_next_word(argv[i])) ++i;
    }
    parsed.context.rest_.assign(argv + own, argv + argc);
    try {
      app_.parse(own, argv);
    } catch (const CLI::ParseError& e) {
      const int code = app_.exit(e);
      parsed.done = code == 0 ? 0 : kUsage;
      return parsed;
    }
    fill(parsed.context);
    return parsed;
  }

 private:
  struct KeyOption {
    std::string kind, key, type, value;
    CLI::Option* option = nullptr;
  };
  struct OwnArgument {
    std::string value;
    bool on = false;
    CLI::Option* option = nullptr;
  };

  // "--sandbox" before "safe": the value is a word of its own.
  bool takes_next_word(const std::string& word) const {
    if (word.find('=') != std::string::npos) return false;
    const CLI::Option* option = app_.get_option_no_throw(word);
    return option != nullptr && option->get_expected_min() > 0;
  }

  void declare(const Argument& argument) {
    OwnArgument& own = own_[argument.name];
    own.value = argument.fallback;
    const std::string help =
        argument.sentence + (argument.fallback.empty() ? "" : " [" + argument.fallback + "]");
    switch (argument.kind) {
      case Argument::Kind::flag: own.option = app_.add_flag("--" + argument.name, own.on, help); break;
      case Argument::Kind::positional: own.option = app_.add_option(argument.name, own.value, help); break;
      default: own.option = app_.add_option("--" + argument.name, own.value, help); break;
    }
    if (argument.required) own.option->required();
  }

  // "decoder:policy" -> kind name "decoder", schema "decoder:<value of --policy>" or "decoder".
  void load_kind(const std::string& kind, int argc, char** argv) {
    const size_t colon = kind.find(':');
    const std::string base = kind.substr(0, colon);
    std::string full = base;
    if (colon != std::string::npos) {
      std::string chosen = peek(argc, argv, kind.substr(colon + 1));
      if (chosen.empty()) chosen = peek(argc, argv, base + "." + kind.substr(colon + 1));
      if (chosen.empty()) {
        const auto own = own_.find(kind.substr(colon + 1));
        if (own != own_.end()) chosen = own->second.value;
      }
      if (!chosen.empty()) full = base + ":" + chosen;
    }
    full_kind_[base] = full;
    Json schema = schema_of(full);
    for (Json& key : schema.at("keys")) {
      for (const Command::Preset& preset : command_.presets) {
        if (preset.kind == base && preset.key == key.at("name")) key["default"] = preset.value;
      }
      keys_.push_back({base, key.at("name"), key.at("type"), "", nullptr});
      help_.push_back(describe_key(key));
    }
  }

  void declare_keys() {
    std::map<std::string, int> owners;
    for (const KeyOption& key : keys_) ++owners[key.key];
    for (size_t i = 0; i < keys_.size(); ++i) {
      KeyOption& key = keys_[i];
      std::string names = "--" + key.kind + "." + key.key;
      if (owners[key.key] == 1 && own_.count(key.key) == 0 && key.key != "config" && key.key != "json") {
        names += ",--" + key.key;
      }
      key.option = app_.add_option(names, key.value, help_[i])->group("Options of the " + key.kind);
    }
  }

  void fill(Context& context) {
    for (const auto& [base, full] : full_kind_) {
      context.options_[base] = make<dllm_options>(
          [&, &kind = full](dllm_options** out, dllm_error* err) { return dllm_options_new(kind.c_str(), out, err); });
    }
    for (const Command::Preset& preset : command_.presets) {
      set_typed(context.options_[preset.kind].get(), preset.key, "str", preset.value);
    }
    if (!config_.empty()) fill_from_file(context);
    for (const KeyOption& key : keys_) {
      if (key.option->count() > 0) set_typed(context.options_[key.kind].get(), key.key, key.type, key.value);
    }
    for (const auto& [name, own] : own_) {
      if (own.option->get_expected_min() == 0 && own.on) context.values_[name] = "1";
      else if (!own.value.empty()) context.values_[name] = own.value;
    }
    if (json_) context.values_["json"] = "1";
  }

  void fill_from_file(Context& context) {
    std::ifstream file(config_);
    if (!file) throw Failure(DLLM_NOT_FOUND, "cannot read " + config_);
    const Json root = Json::parse(file, nullptr, false);
    if (!root.is_object()) throw Failure(DLLM_INVALID_ARGUMENT, config_ + " is not a JSON object");
    for (const auto& [kind, values] : root.items()) {
      const auto found = context.options_.find(kind);
      if (found == context.options_.end()) {
        throw Failure(DLLM_NOT_FOUND, config_ + ": this command takes no options of kind " + kind);
      }
      const std::string json = values.dump();
      call([&](dllm_error* err) {
        return dllm_options_set_json(found->second.get(), json.data(), static_cast<int64_t>(json.size()), err);
      });
    }
  }

  const Command& command_;
  CLI::App app_;
  std::string config_;
  bool json_ = false;
  std::map<std::string, OwnArgument> own_;
  std::map<std::string, std::string> full_kind_;
  std::deque<KeyOption> keys_;
  std::vector<std::string> help_;
};

Parsed parse(const Command& command, int argc, char** argv) { return Parser(command, argc, argv).run(argc, argv); }

std::string Context::text(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::string() : found->second;
}

bool Context::has(const std::string& name) const { return values_.count(name) != 0; }
bool Context::flag(const std::string& name) const { return values_.count(name) != 0; }
int64_t Context::number(const std::string& name) const {
  return parse_number<int64_t>(name, text(name), "a whole number");
}

std::string Context::option(const std::string& kind, const std::string& key) const {
  const std::string all = dllm::cli::text(
      [&](dllm_buffer* out, dllm_error* err) { return dllm_options_to_json(options(kind), out, err); });
  return Json::parse(all).at(key).dump();
}

dllm_options* Context::options(const std::string& kind) const { return options_.at(kind).get(); }

}  // namespace dllm::cli
