#include "option_list.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace dllm::cli {
namespace {

constexpr size_t kColumn = 30, kWidth = 100; // where sentences begin, and end

std::string upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

// "--decoder.steps, --steps N"; a positional: "TRACE".
std::string names_of(const Option& option) {
  if (option.names.empty()) return upper(option.argument);
  std::string line;
  for (auto name = option.names.rbegin(); name != option.names.rend(); ++name)
    line += (line.empty() ? "" : ", ") + *name;
  if (option.names[0] == "-h") line = "-h, --help";
  if (option.type == "flag") return line;
  const bool whole = option.type == "number" || option.type == "i64";
  const bool real = option.type == "f64";
  return line + (whole                   ? " N"
                 : real                  ? " X"
                 : option.type == "bool" ? " BOOL"
                 : option.type == "list" ? " A,B"
                                         : " TEXT");
}

// Wraps words to lines that begin at a column; the first line begins with `begin`.
std::string wrapped(const std::string& begin, const std::string& sentence, size_t column) {
  std::string out = begin, line;
  if (begin.size() + 2 > column)
    out += "\n" + std::string(column, ' ');
  else
    out += std::string(column - begin.size(), ' ');
  std::istringstream words(sentence);
  for (std::string word; words >> word;) {
    if (!line.empty() && column + line.size() + 1 + word.size() > kWidth) {
      out += line + "\n" + std::string(column, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

std::string usage_line(const Command& command) {
  std::string line = "usage: dllm " + command.name + (command.passes_rest ? " [OPTIONS]" : "");
  for (const Argument& argument : command.arguments) {
    if (argument.kind == Argument::Kind::positional)
      line += " " + upper(argument.name) + (argument.repeats ? "..." : "");
  }
  for (const std::string& word : command.words) line += " [" + upper(word) + "]";
  return line + (command.passes_rest ? " [WORDS OF THE SCRIPT]" : " [OPTIONS]");
}

// Returns the groups in the order of their first options.
std::vector<std::string> groups_of(const OptionList& list) {
  std::vector<std::string> groups;
  for (const char* first : {"Arguments", "Options"}) groups.emplace_back(first);
  for (const Option& option : list.all()) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end())
      groups.push_back(option.group);
  }
  return groups;
}

// Escapes text for man(7): a dash is \-, and a line may not begin with a dot.
std::string roff(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += std::string("\\&") + c;
    else
      out += c;
  }
  return out;
}

} // namespace

OptionList options_of(const Command& command) {
  std::map<std::string, std::string> kinds;
  for (const std::string& kind : command.kinds) {
    const std::string base = kind.substr(0, kind.find(':'));
    kinds[base] = base;
  }
  return OptionList(command, kinds);
}

std::string help_text(const Command& command, const OptionList& list) {
  std::string out = command.summary + "\n\n" + usage_line(command) + "\n";
  for (const std::string& group : groups_of(list)) {
    std::string lines;
    for (const Option& option : list.all()) {
      if (option.group == group) lines += wrapped("  " + names_of(option), option.help, kColumn);
    }
    if (!lines.empty()) out += "\n" + group + ":\n" + lines;
  }
  return out + "\nExample:\n  " + command.example + "\n";
}

std::string usage_text() {
  std::string out =
      std::string("dllm ") + dllm_version() +
      ": train and decode diffusion language models\n\n"
      "usage: dllm COMMAND [OPTIONS]       dllm COMMAND --help shows every option\n\n";
  for (const Command& command : commands()) {
    out += "  " + command.name + std::string(17 - std::min<size_t>(16, command.name.size()), ' ') +
           command.summary + "\n";
  }
  return out + "\n  help [COMMAND]   this, or what a command takes; --man: the manual page; "
               "--bash, --zsh, --fish: completion\n"
               "  --version, -v    version and build\n"
               "\nA first model in a few minutes:  ./scripts/quickstart\n";
}

std::string manual_page() {
  std::string out =
      std::string(".TH DLLM 1 \"\" \"dllm ") + dllm_version() +
      "\" \"User Commands\"\n.SH NAME\ndllm \\- train and decode diffusion language models\n"
      ".SH SYNOPSIS\n.B dllm\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH COMMANDS\n";
  for (const Command& command : commands()) {
    const OptionList list = options_of(command);
    out += ".SS dllm " + roff(command.name) + "\n" + roff(command.summary) + ".\n";
    for (const Option& option : list.all()) {
      out += ".TP\n.B " + roff(names_of(option)) + "\n" + roff(option.help) + "\n";
    }
    out += ".P\nExample:\n.nf\n" + roff(command.example) + "\n.fi\n";
  }
  return out + ".SH EXIT STATUS\n0: done. 1: failed. 2: wrong usage. 130: interrupted.\n"
               ".SH ENVIRONMENT\nNO_COLOR: no colours. DLLM_PLUGINS: folders of plugins, separated "
               "by colons.\n";
}

} // namespace dllm::cli
