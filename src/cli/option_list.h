#pragma once
// What a command line may hold: the command's own arguments and the keys of its kinds of options, with their names.

#include "command.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::cli {

// A key that a value goes to.
struct Target {
  std::string kind, key, type;
};

struct Option {
  std::vector<std::string> names;      // "--decoder.steps", "--steps"; a positional has none
  std::string type;                    // text, number, flag, or the key's: i64 f64 bool str list
  std::string help;                    // sentence, choices, [default]
  std::string group;                   // heading in --help
  std::string argument;                // the command's own argument of this name; "": keys of options
  std::vector<Target> targets;
};

class OptionList {
 public:
  // kinds: base to full name, {"decoder": "decoder:spd"}.
  OptionList(const Command& command, const std::map<std::string, std::string>& kinds);

  const std::vector<Option>& all() const { return options_; }
  const Option* find(std::string_view name) const;  // with its dashes; null: there is none
  // The error for an unknown name: the nearest one, or the full names that a bare key stands for.
  std::string advice(const std::string& name) const;

 private:
  void add_argument(const Argument& argument);
  void add_kind(const Command& command, const std::string& base, const std::string& full);
  void add_bare_names();

  std::vector<Option> options_;
};

}  // namespace dllm::cli
