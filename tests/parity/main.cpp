// parity DIR... [--assets DIR] [--engine KEY=VALUE]...: golden numbers against ours, one line per case.

#include "base/error.h"
#include "base/files.h"
#include "handlers.h"
#include "runner.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace dllm::parity {
namespace {

constexpr const char* kUsage =
    "usage: parity DIR... [--assets DIR] [--engine KEY=VALUE]...\n"
    "  DIR       a topic (a folder with cases.json), a set of topics, or a tree of sets\n"
    "  --assets  files the goldens do not store (default $DLLM_ASSETS), filled by "
    "scripts/fetch-assets\n"
    "  --engine  an option of the engine that computes, such as kind=pjrt and plugin=PATH\n";

// Topic folders below, by name. Checkpoint folders hold no cases and are not entered.
void find_topics(const std::string& folder, int depth, std::vector<std::string>& topics) {
  constexpr int kDeepest = 6;
  if (file_exists(join_path(folder, "cases.json"))) {
    topics.push_back(folder);
    return;
  }
  if (depth == kDeepest || file_exists(join_path(folder, "config.json"))) return;
  for (const std::string& name : list_directory(folder)) {
    const std::string path = join_path(folder, name);
    if (is_directory(path)) find_topics(path, depth + 1, topics);
  }
}

void run_topic(Session& session, const std::string& folder) {
  try {
    Topic topic(session, folder);
    const Handler handler = find_handler(topic.name());
    if (handler == nullptr)
      return topic.skip("*", fmt::format("topic {} is not supported yet", topic.name()));
    handler(topic);
    topic.skip_unknown_lists();
  } catch (const std::exception& error) {
    ++session.report.failed;
    session.report.line("FAIL", folder, fmt::format("- - {}", error.what()));
  }
}

// Absolute, so that "." has a name and a parent.
std::string full_path(const std::string& path) {
  const std::filesystem::path full = std::filesystem::absolute(path).lexically_normal();
  return (full.has_filename() ? full : full.parent_path()).string();
}

void set_engine_option(Session& session, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos)
    fail(Code::invalid_argument, "--engine {} is not KEY=VALUE", assignment);
  session.engine_options.set_text(assignment.substr(0, equals), assignment.substr(equals + 1));
}

int run(int count, char** arguments) {
  Session session;
  if (const char* assets = std::getenv("DLLM_ASSETS")) session.assets = assets;
  std::vector<std::string> folders;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--help" || argument == "-h") return std::fputs(kUsage, stdout), 0;
    if (argument == "--assets" && i + 1 < count)
      session.assets = arguments[++i];
    else if (argument.starts_with("--assets="))
      session.assets = argument.substr(9);
    else if (argument == "--engine" && i + 1 < count)
      set_engine_option(session, arguments[++i]);
    else if (argument.starts_with("-"))
      return std::fputs(kUsage, stderr), 2;
    else
      folders.push_back(full_path(argument));
  }
  if (folders.empty()) return std::fputs(kUsage, stderr), 2;

  for (const std::string& folder : folders) {
    std::vector<std::string> topics;
    if (is_directory(folder)) find_topics(folder, 0, topics);
    if (topics.empty()) {
      ++session.report.skipped;
      session.report.line("skip", folder,
                          is_directory(folder) ? "holds no cases.json" : "is no folder");
    }
    for (const std::string& topic : topics) run_topic(session, topic);
  }
  const Report& report = session.report;
  fmt::print("{} passed, {} failed, {} skipped\n", report.passed, report.failed, report.skipped);
  return report.failed == 0 && report.passed > 0 ? 0 : 1;
}

} // namespace
} // namespace dllm::parity

int main(int count, char** arguments) {
  try {
    return dllm::parity::run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
