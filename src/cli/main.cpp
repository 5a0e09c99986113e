// The program `dllm`: a client of the shared library like any other.

#include "command.h"
#include "interrupt.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace dllm::cli {
namespace {

void print_usage(std::FILE* to) {
  std::fprintf(to,
               "dllm %s: train and decode diffusion language models\n\n"
               "usage: dllm COMMAND [OPTIONS]       dllm COMMAND --help shows every option\n\n",
               dllm_version());
  for (const Command& command : commands()) {
    std::fprintf(to, "  %-16s %s\n", command.name.c_str(), command.summary.c_str());
  }
  std::fprintf(to, "\nA first model in a few minutes:  ./scripts/quickstart\n");
}

int report(const Failure& failure, bool json) {
  if (json) {
    std::printf("{\"error\": \"%s\"}\n", dllm_status_name(failure.status()));
  }
  std::fprintf(stderr, "dllm: %s\n", failure.what());
  if (!failure.hint().empty()) std::fprintf(stderr, "      %s\n", failure.hint().c_str());
  return failure.status() == DLLM_CANCELLED ? kInterrupted : kFailed;
}

int run_command(const Command& command, int argc, char** argv) {
  bool json = false;
  for (int i = 0; i < argc; ++i) json = json || std::strcmp(argv[i], "--json") == 0;
  try {
    Parsed parsed = parse(command, argc, argv);
    if (parsed.done) return *parsed.done;
    const Interrupt interrupt(parsed.context.task());
    return command.run(parsed.context);
  } catch (const Failure& failure) {
    return report(failure, json);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dllm: %s\n", e.what());
    return kFailed;
  }
}

}  // namespace

int run(int argc, char** argv) {
  // A closed pipe and a file above the size limit are errors of the write that meets them, not the end.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const std::string name = argc > 1 ? argv[1] : "";
  if (name.empty() || name == "-h" || name == "--help" || name == "help") {
    print_usage(name.empty() ? stderr : stdout);
    return name.empty() ? kUsage : 0;
  }
  if (name == "--version") {
    std::printf("dllm %s\n%s\n", dllm_version(), dllm_build_info());
    return 0;
  }
  for (const Command& command : commands()) {
    if (command.name == name) return run_command(command, argc - 1, argv + 1);
  }
  std::fprintf(stderr, "dllm: there is no command \"%s\"\n\n", name.c_str());
  print_usage(stderr);
  return kUsage;
}

}  // namespace dllm::cli

int main(int argc, char** argv) {
  dllm_log_config(DLLM_LOG_WARN, DLLM_SINK_STDERR);
  return dllm::cli::run(argc, argv);
}
