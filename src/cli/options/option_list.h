#pragma once
// An OptionList holds the options of a command, which are its arguments and the keys of its kinds.
// This header also declares --config files, help texts and shell completion.

#include "../command.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// A key that an option sets.
struct Target {
  std::string kind, key, type;
};

struct Option {
  std::vector<std::string> names; // "--decoder.top-k", "--top-k"; empty for a positional argument
  std::string type;               // text, number, flag, or the key's type: i64 f64 bool str list
  std::string help;               // sentence, choices, [default]
  std::string group;              // heading in --help
  std::string argument;           // name of the command's argument; "": the option sets `targets`
  std::vector<Target> targets;
};

class OptionList {
public:
  // kinds: base name to full name, {"decoder": "decoder:spd"}.
  OptionList(const Command& command, const std::map<std::string, std::string>& kinds);

  const std::vector<Option>& all() const { return options_; }
  // Returns the option with this name, or null. The name has its dashes; "_" counts as "-".
  const Option* find(std::string_view name) const;
  // Returns the error for an unknown name. It names the nearest option, or the full names of the
  // options with this bare key.
  std::string no_such_option(const std::string& name) const;

private:
  std::string owners_of(const std::string& name) const;
  std::string other_name(const std::string& name) const;
  void add_argument(const Argument& argument);
  void add_kind(const Command& command, const std::string& base, const std::string& full);
  void add_bare_names();

  std::vector<Option> options_;
};

// ---- files of --config ----

// A file of --config, which holds options as JSON. A member is a kind with its keys
// ({"trainer": {"lr": 1e-3}}), or an option of the command by its name on the command line
// ({"steps": 100, "model": "runs/first"}).
class ConfigFile {
public:
  // path "": no file. Throws UsageFailure with line and column when the file is not JSON.
  explicit ConfigFile(const std::string& path);

  const std::string& path() const { return path_; }
  // Returns the text of the top-level member `key`, else of the key in the member `kind`, else "".
  std::string text(const std::string& kind, const std::string& key) const;
  // Returns the settings in the order of the file. An argument of the command has an empty kind and
  // its name as key.
  std::vector<Setting> settings(const OptionList& list,
                                const std::map<std::string, std::string>& kinds) const;

private:
  std::string path_;
  nlohmann::ordered_json root_;
};

// ---- help.cpp ----

// Returns the options of a command before a command line is parsed.
OptionList options_of(const Command& command);
std::string help_text(const Command& command, const OptionList& list);
// Returns a list of all commands, one line each.
std::string usage_text();
// Returns the manual page dllm(1) with the macros of man(7).
std::string manual_page();

// ---- completion.cpp: shell scripts that complete commands and options ----

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

} // namespace dllm::cli
