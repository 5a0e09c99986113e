#pragma once
// The options of a command: its own arguments and the keys of its kinds, with their names; --config files; help texts.

#include "command.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// A key that a value goes to.
struct Target {
  std::string kind, key, type;
};

struct Option {
  std::vector<std::string> names; // "--decoder.top-k", "--top-k"; a positional has none
  std::string type;               // text, number, flag, or the key's: i64 f64 bool str list
  std::string help;               // sentence, choices, [default]
  std::string group;              // heading in --help
  std::string argument;           // the command's own argument of this name; "": keys of options
  std::vector<Target> targets;
};

class OptionList {
public:
  // kinds: base to full name, {"decoder": "decoder:spd"}.
  OptionList(const Command& command, const std::map<std::string, std::string>& kinds);

  const std::vector<Option>& all() const { return options_; }
  // With its dashes; "_" in a name is "-". Null: there is none.
  const Option* find(std::string_view name) const;
  // The error for an unknown name, with the nearest one or the full names that a bare key stands
  // for.
  std::string no_such_option(const std::string& name) const;

private:
  void add_argument(const Argument& argument);
  void add_kind(const Command& command, const std::string& base, const std::string& full);
  void add_bare_names();

  std::vector<Option> options_;
};

// ---- files of --config ----
// --config FILE: options as JSON. A member is a kind with its keys ({"trainer": {"lr": 1e-3}}), or any option of the
// command by the name that it has on the command line ({"steps": 100, "model": "runs/first"}).

class ConfigFile {
public:
  // "": no file. Throws UsageFailure with line and column for what is no JSON.
  explicit ConfigFile(const std::string& path);

  const std::string& path() const { return path_; }
  // The text of key `key` of a kind, or of the top-level member of that name; "" without it.
  std::string text(const std::string& kind, const std::string& key) const;
  // In the order of the file. An argument of the command's own has an empty kind and its name as key.
  std::vector<Setting> settings(const OptionList& list,
                                const std::map<std::string, std::string>& kinds) const;

private:
  std::string path_;
  nlohmann::ordered_json root_;
};

// ---- help.cpp ----

// What a command takes, with the options of its kinds.
OptionList options_of(const Command& command);
std::string help_text(const Command& command, const OptionList& list);
// All commands with one line each.
std::string usage_text();
// The manual page dllm(1), in man(7)'s macros.
std::string manual_page();

// ---- completion.cpp: scripts for shells that complete commands and options ----

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

} // namespace dllm::cli
