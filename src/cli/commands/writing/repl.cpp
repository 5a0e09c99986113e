// dllm repl is a Lua prompt with the library. Its Lua part is scripts/lib/dllm/repl.lua.

#include "../../command.h"
#include "../../options/names.h"
#include "../../pictures/pictures.h"
#include "../../processes/process.h"
#include "../../pulling/pulling.h"
#include "../../terminal/line_editor.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace dllm::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kReplHelp =
    "  1 + 1                          an expression: its value is printed, and kept in _\n"
    "  model = dllm.model \"runs/first\"  names without \"local\" live until the end\n"
    "  dllm.decoder(model, { st<Tab>   Tab completes names, methods, option keys, choices\n"
    "  for i = 1, 3 do                a chunk continues until it is complete; Ctrl-C discards "
    "it\n\n"
    "  :help                          show this help\n"
    "  :options decoder               every option of a kind, with default and meaning\n"
    "  :generate --model M ...        any command of the program: :train :inspect :verify ...\n"
    "  :quit                          or Ctrl-D\n\n"
    "Ctrl-C stops what runs after its current step; twice ends the program.\n";

std::vector<std::string> split_words(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  bool inside = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0 && c == quote)
      quote = 0;
    else if (quote == 0 && (c == '"' || c == '\''))
      quote = c, inside = true;
    else if (c == '\\' && quote != '\'' && i + 1 < line.size())
      word += line[++i], inside = true;
    else if (quote == 0 && (c == ' ' || c == '\t')) {
      if (inside) words.push_back(word);
      word.clear();
      inside = false;
    } else
      word += c, inside = true;
  }
  if (quote != 0)
    throw Failure(DLLM_INVALID_ARGUMENT, std::string("the quote ") + quote + " is not closed");
  if (inside) words.push_back(word);
  return words;
}

Json schema_of(const std::string& kind) {
  return Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
    return dllm_options_schema(kind.c_str(), out, err);
  }));
}

const Command* find_in_repl(const std::string& name) {
  for (const Command& command : commands()) {
    if (command.name == name && name != "repl") return &command;
  }
  return nullptr;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names = {"help", "options", "quit"};
  for (const Command& command : commands()) names.push_back(command.name);
  return names;
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> names = {"--config ", "--help ", "--json "};
  for (const Argument& argument : command.arguments) {
    if (argument.kind != Argument::Kind::positional) names.push_back("--" + argument.name + " ");
  }
  for (const std::string& kind : command.kinds) {
    const std::string base = kind.substr(0, kind.find(':'));
    const Json schema = schema_of(base);
    for (const Json& key : schema.at("keys"))
      names.push_back(option_name(base, key.at("name").get<std::string>()) + " ");
  }
  return names;
}

// ":gen<Tab>", ":generate --dec<Tab>", ":options lo<Tab>"
Completion complete_command(const std::string& line) {
  const size_t begin =
      line.find_last_of(" \t") == std::string::npos ? 1 : line.find_last_of(" \t") + 1;
  Completion found{line.substr(begin), {}};
  std::vector<std::string> all;
  const std::string name = line.substr(1, line.find_first_of(" \t") - 1);
  if (begin == 1) {
    for (const std::string& command : command_names()) all.push_back(command + " ");
  } else if (name == "options") {
    for (int64_t i = 0; const char* kind = dllm_registry_name("options", i); ++i)
      all.emplace_back(kind);
  } else if (const Command* command = find_in_repl(name)) {
    all = option_names(*command);
  }
  for (const std::string& item : all) {
    if (item.compare(0, found.word.size(), found.word) == 0) found.items.push_back(item);
  }
  std::sort(found.items.begin(), found.items.end());
  return found;
}

void print_options(const std::string& kind) {
  const Json schema = schema_of(kind);
  for (const Json& key : schema.at("keys")) {
    std::printf("  %-22s %-5s %-14s %s\n", key.at("name").get<std::string>().c_str(),
                key.at("type").get<std::string>().c_str(), key.at("default").dump().c_str(),
                key.at("doc").get<std::string>().c_str());
  }
}

std::string history_path(const Context& context) {
  const std::string path = context.text("history");
  if (path == "none") return {};
  if (!path.empty()) return path;
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state != nullptr && *state != '\0') return std::string(state) + "/dllm/repl_history";
  return home == nullptr ? std::string() : std::string(home) + "/.local/state/dllm/repl_history";
}

class Repl {
public:
  explicit Repl(Context& context)
      : lua_(make<dllm_lua>([&](dllm_lua** out, dllm_error* err) {
          return dllm_lua_new(context.options("lua"), out, err);
        })),
        interactive_(isatty(STDIN_FILENO) != 0),
        editor_([this](const std::string& line) { return complete(line); }, history_path(context)) {
    constexpr std::string_view kOpen = "__repl = require 'dllm.repl'";
    call([&](dllm_error* err) {
      return dllm_lua_run_text(lua_.get(), "repl", kOpen.data(), static_cast<int64_t>(kOpen.size()),
                               nullptr, nullptr, err);
    });
    if (!context.has("first")) return;
    call([&](dllm_error* err) {
      return dllm_lua_run_file(lua_.get(), context.text("first").c_str(), nullptr, 0,
                               context.task(), nullptr, err);
    });
  }

  int run() {
    if (interactive_)
      std::printf("dllm %s with Lua 5.4. %s:help shows more, Ctrl-D quits.\n", dllm_version(),
                  editor_.completes() ? "Tab completes, " : "");
    bool failed = false;
    for (;;) {
      const Line line = editor_.read(chunk_.empty() ? "dllm> " : " ...> ");
      if (line.kind == Line::Kind::interrupted) chunk_.clear();
      if (line.kind == Line::Kind::interrupted) continue;
      if (line.kind == Line::Kind::end) break;
      const Outcome outcome = take(line.text);
      std::fflush(stdout);
      failed = failed || outcome == Outcome::failed;
      if (outcome == Outcome::quit) return !interactive_ && failed ? kFailed : 0;
    }
    if (!chunk_.empty()) {
      std::fprintf(stderr, "dllm: the last chunk is not complete\n");
      failed = true;
    }
    return !interactive_ && failed ? kFailed : 0;
  }

private:
  enum class Outcome { done, failed, quit };

  Outcome take(const std::string& line) {
    try {
      if (chunk_.empty() && line.find_first_not_of(" \t") == std::string::npos)
        return Outcome::done;
      if (chunk_.empty() && line[0] == ':') return take_command(line);
      const std::string source = chunk_ + line + "\n";
      chunk_.clear(); // also when it raises
      if (run_chunk(source)) return Outcome::done;
      chunk_ = source;
      return Outcome::done;
    } catch (const Failure& failure) {
      report(failure);
      return Outcome::failed;
    }
  }

  // Returns false when the chunk continues in the next line.
  bool run_chunk(const std::string& source) {
    const Owned<dllm_task> task(dllm_task_new());
    const Interrupt interrupt(task.get());
    return call_lua("__repl.run", source, task.get()).at(0) == "done";
  }

  Outcome take_command(const std::string& line) {
    std::vector<std::string> words = split_words(line.substr(1));
    const std::string name = words.empty() ? "" : words[0];
    if (name == "quit" || name == "q") return Outcome::quit;
    if (name == "help" || name.empty()) {
      std::fputs(kReplHelp, stdout);
      return Outcome::done;
    }
    if (name == "options" && words.size() == 2) {
      print_options(words[1]);
      return Outcome::done;
    }
    const Command* command = find_in_repl(name);
    if (command == nullptr)
      throw Failure(DLLM_NOT_FOUND, no_such("command", name, command_names()),
                    ":help lists the commands");
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    Parsed parsed = parse(*command, static_cast<int>(argv.size()), argv.data());
    if (parsed.done) return *parsed.done == 0 ? Outcome::done : Outcome::failed;
    const Interrupt interrupt(parsed.context.task());
    pull_arguments(*command, parsed.context);
    return command->run(parsed.context) == 0 ? Outcome::done : Outcome::failed;
  }

  Completion complete(const std::string& line) {
    if (chunk_.empty() && !line.empty() && line[0] == ':') return complete_command(line);
    const Json found = call_lua("__repl.complete", chunk_ + line, nullptr).at(0);
    Completion completion{found.at("word").get<std::string>(), {}};
    for (const Json& item : found.at("items")) completion.items.push_back(item.get<std::string>());
    return completion;
  }

  Json call_lua(const char* function, const std::string& argument, dllm_task* task) {
    const std::string arguments =
        Json::array({argument}).dump(-1, ' ', false, Json::error_handler_t::replace);
    return Json::parse(text([&](dllm_buffer* out, dllm_error* err) {
      return dllm_lua_call(lua_.get(), function, arguments.data(),
                           static_cast<int64_t>(arguments.size()), task, out, err);
    }));
  }

  // Prints the message and the hint, and of a traceback only the caller's own frames.
  void report(const Failure& failure) const {
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", failure.what());
    std::string hint = failure.hint();
    const size_t trace = hint.find("stack traceback:");
    if (trace != std::string::npos) hint.resize(trace);
    while (!hint.empty() && hint.back() == '\n') hint.pop_back();
    if (!hint.empty()) std::fprintf(stderr, "  %s\n", hint.c_str());
  }

  Owned<dllm_lua> lua_;
  bool interactive_;
  std::string chunk_; // lines of a chunk that is not complete yet
  LineEditor editor_;
};

int repl(Context& context) {
  return Repl(context).run();
}

} // namespace

Command repl_command() {
  using Kind = Argument::Kind;
  return {"repl",
          "try the library at a Lua prompt with completion",
          "dllm repl\n"
          "  dllm> m = dllm.model \"runs/quickstart\"\n"
          "  dllm> d = dllm.decoder(m, { steps = 8, gen_length = 8 })\n"
          "  dllm> d:start({}, 1) d:run()\n"
          "  dllm> d:ids(0)\n"
          "  echo 'dllm.names \"policy\"' | dllm repl",
          {{Kind::text, "first", "", "run this script before the first prompt; its globals stay"},
           {Kind::text, "history", "",
            "a file to keep the lines in, or none; default: $XDG_STATE_HOME/dllm/repl_history"}},
          {"lua"},
          repl,
          false,
          {{"lua", "sandbox", "full"}}}; // a user who types a command may use the machine
}

} // namespace dllm::cli
