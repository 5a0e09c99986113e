// The program `dllm` uses the shared library through its C ABI, like any other client.

#include "command.h"
#include "options/command_flags.h"
#include "options/names.h"
#include "options/option_list.h"
#include "processes/limited.h"
#include "processes/process.h"
#include "pulling/pulling.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>

namespace dllm::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      train_command(),      sweep_command(),        generate_command(),
      infill_command(),     chat_command(),         replay_command(),
      report_command(),     tokenize_command(),     tokenizer_train_command(),
      inspect_command(),    devices_command(),      graph_command(),
      compile_command(),    verify_command(),       bench_command(),
      eval_command(),       quantize_command(),     convert_command(),
      export_command(),     pull_command(),         models_command(),
      serve_command(),      trajectories_command(), anchors_command(),
      run_script_command(), repl_command()};
  return table;
}
namespace {

// Errors of the command line begin with "dllm generate: ", other errors with "dllm: ".
void print_json(const Failure& failure, const std::string& hint) {
  const nlohmann::ordered_json line = {
      {"error", dllm_status_name(failure.status())}, {"message", failure.what()}, {"hint", hint}};
  std::printf("%s\n",
              line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

bool has_json(int argc, char** argv) {
  return std::any_of(argv, argv + argc,
                     [](const char* word) { return std::strcmp(word, "--json") == 0; });
}

int report(const Command& command, const Failure& failure, bool json, const std::string& who,
           int code) {
  const std::string hint = hint_in_flags(failure.hint(), flags_of(command));
  if (json) print_json(failure, hint);
  print_failure_of_rank(failure.what());
  std::fprintf(stderr, "%s: %s\n", who.c_str(), failure.what());
  if (!hint.empty()) std::fprintf(stderr, "      %s\n", hint.c_str());
  return code;
}

int run_command(const Command& command, int argc, char** argv) {
  const bool json = has_json(argc, argv);
  try {
    Parsed parsed = parse(command, argc, argv);
    if (parsed.done) return *parsed.done;
    parsed.context.give_input();
    join_processes(command, parsed.context);
    const Interrupt interrupt(parsed.context.task());
    pull_arguments(command, parsed.context);
    return command.run(parsed.context);
  } catch (const UsageFailure& failure) {
    return report(command, failure, json, "dllm " + command.name, kUsage);
  } catch (const Failure& failure) {
    return report(command, failure, json, "dllm",
                  failure.status() == DLLM_CANCELLED ? interrupted_code() : kFailed);
  } catch (const std::filesystem::filesystem_error& error) {
    const Failure failure(DLLM_PERMISSION_DENIED,
                          "cannot use " + error.path1().string() + ": " + error.code().message());
    return report(command, failure, json, "dllm", kFailed);
  } catch (const std::exception& e) {
    print_failure_of_rank(e.what());
    std::fprintf(stderr, "dllm: %s\n", e.what());
    return kFailed;
  }
}

const Command* find_command(const std::string& name) {
  for (const Command& command : commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int no_command(const std::string& name, bool json) {
  std::vector<std::string> names = {"help"};
  for (const Command& command : commands()) names.push_back(command.name);
  const UsageFailure failure(no_such("command", name, names), "dllm help lists the commands");
  if (json) print_json(failure, failure.hint());
  std::fprintf(stderr, "dllm: %s\n      %s\n", failure.what(), failure.hint().c_str());
  return kUsage;
}

int help(const std::string& topic) {
  if (topic.empty())
    std::fputs(usage_text().c_str(), stdout);
  else if (topic == "--man")
    std::fputs(manual_page().c_str(), stdout);
  else if (topic == "--bash")
    std::fputs(bash_completion().c_str(), stdout);
  else if (topic == "--zsh")
    std::fputs(zsh_completion().c_str(), stdout);
  else if (topic == "--fish")
    std::fputs(fish_completion().c_str(), stdout);
  else if (const Command* command = find_command(topic)) {
    std::string name = topic, flag = "--help";
    char* argv[] = {name.data(), flag.data()};
    return run_command(*command, 2, argv);
  } else {
    return no_command(topic, false);
  }
  return 0;
}

int run(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name.empty()) {
    std::fputs(usage_text().c_str(), stderr);
    return kUsage;
  }
  if (name == "-h" || name == "--help" || name == "help") return help(argc > 2 ? argv[2] : "");
  if (name == "--version" || name == "-v" || name == "-V") {
    std::printf("dllm %s\n%s\n", dllm_version(), dllm_build_info());
    return 0;
  }
  if (const Command* command = find_command(name)) return run_command(*command, argc - 1, argv + 1);
  return no_command(name, has_json(argc, argv));
}

} // namespace
} // namespace dllm::cli

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], dllm::cli::kLimitedWord) == 0)
    return dllm::cli::become_limited(argc - 2, argv + 2);
  dllm::cli::quiet_unless_first();
  dllm_log_config(DLLM_LOG_WARN, DLLM_SINK_STDERR);
  dllm::cli::watch_standard_output();
  return dllm::cli::finish_standard_output(dllm::cli::run(argc, argv));
}
