// This file makes the shell scripts that complete commands and options, from the option lists of
// the commands.

#include "option_list.h"

namespace dllm::cli {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

std::string command_names() {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return joined(names);
}

// Quotes a text with single quotes of a shell; the characters of `more` get a backslash.
std::string quoted(const std::string& text, const std::string& quote,
                   const std::string& more = "") {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += quote;
    } else {
      if (more.find(c) != std::string::npos) out += '\\';
      out += c;
    }
  }
  return out + "'";
}

} // namespace

std::string bash_completion() {
  const std::string names = command_names();
  std::string cases;
  for (const Command& command : commands()) {
    std::vector<std::string> words;
    const OptionList list = options_of(command);
    for (const Option& option : list.all())
      words.insert(words.end(), option.names.begin(), option.names.end());
    cases += "    " + command.name + ") words=\"" + joined(words) + "\" ;;\n";
  }
  return "# bash completion of dllm; made by: dllm help --bash\n"
         "_dllm() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} words=\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
         "    COMPREPLY=($(compgen -W \"" +
         names +
         " help --version\" -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  case ${COMP_WORDS[1]} in\n" +
         cases + "    help) words=\"" + names +
         "\" ;;\n"
         "  esac\n"
         "  case $word in\n"
         "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
         "    *) [ \"${COMP_WORDS[1]}\" = help ] && COMPREPLY=($(compgen -W \"$words\" -- "
         "\"$word\"))\n"
         "       [ ${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
         "  esac\n"
         "}\n"
         "complete -o filenames -F _dllm dllm\n";
}

std::string zsh_completion() {
  std::string names, cases;
  for (const Command& command : commands()) {
    names += "    " + quoted(command.name + ":" + command.summary, "'\\''") + "\n";
    cases += "    " + command.name + ")\n      _arguments \\\n";
    const OptionList list = options_of(command);
    for (const Option& option : list.all()) {
      for (const std::string& name : option.names) {
        const std::string value = option.type == "flag" ? "" : ":" + option.type + ":_files";
        const std::string help = quoted(option.help, "'\\''", "[]"); // brackets would end it
        cases += "        " + name + "'['" + help + "']'" + value + " \\\n";
      }
    }
    cases += "        '*:file:_files' ;;\n";
  }
  return "#compdef dllm\n# zsh completion of dllm; made by: dllm help --zsh\n"
         "_dllm() {\n"
         "  local -a names=(\n" +
         names +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe 'command' names\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $command in\n" +
         cases +
         "    help) _describe 'command' names ;;\n"
         "  esac\n"
         "}\n"
         "_dllm \"$@\"\n";
}

std::string fish_completion() {
  std::string out = "# fish completion of dllm; made by: dllm help --fish\n"
                    "complete -c dllm -n __fish_use_subcommand -f\n";
  for (const Command& command : commands()) {
    out += "complete -c dllm -n __fish_use_subcommand -a " + command.name + " -d " +
           quoted(command.summary, "\\'", "\\") + "\n";
    const OptionList list = options_of(command);
    for (const Option& option : list.all()) {
      for (const std::string& name : option.names) {
        const bool is_long = name.rfind("--", 0) == 0;
        out += "complete -c dllm -n '__fish_seen_subcommand_from " + command.name + "' " +
               (is_long ? "-l " + name.substr(2) : "-s " + name.substr(1)) +
               (option.type == "flag" ? "" : " -r") + " -d " + quoted(option.help, "\\'", "\\") +
               "\n";
      }
    }
  }
  return out;
}

} // namespace dllm::cli
