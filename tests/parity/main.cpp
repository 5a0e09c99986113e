// parity DIR... [--assets DIR] [--engine KEY=VALUE]... [--pins FILE] [--counts FILE]: golden
// numbers against ours, one line per case.

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
    "usage: parity DIR... [--assets DIR] [--engine KEY=VALUE]... [--pins FILE] [--counts FILE]\n"
    "  DIR       a topic (a folder with cases.json), a set of topics, or a tree of sets\n"
    "  --assets  files the goldens do not store (default $DLLM_ASSETS), filled by "
    "scripts/fetch-assets\n"
    "  --engine  an option of the engine that computes, such as kind=pjrt and plugin=PATH\n"
    "  --pins    counts that must hold: a topic that passes less or skips more fails\n"
    "  --counts  writes the counts of this run, for the pins\n";

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
    topic.counts(); // a topic without a case is counted too
    handler(topic);
    topic.skip_unknown_lists();
    topic.count_unread_arrays();
  } catch (const std::exception& error) {
    ++session.report.topics[join_path(file_name(parent_path(folder)), file_name(folder))].failed;
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

struct Arguments {
  std::vector<std::string> folders;
  std::string pins, counts;
};

// The value of "--name VALUE" or "--name=VALUE" at `i`; null for another argument.
const char* value_of(const char* name, int& i, int count, char** arguments) {
  const std::string argument = arguments[i];
  if (argument == name && i + 1 < count) return arguments[++i];
  const std::string with_value = std::string(name) + "=";
  return argument.starts_with(with_value) ? arguments[i] + with_value.size() : nullptr;
}

bool parse(int count, char** arguments, Session& session, Arguments& parsed) {
  for (int i = 1; i < count; ++i) {
    if (const char* assets = value_of("--assets", i, count, arguments))
      session.assets = assets;
    else if (const char* option = value_of("--engine", i, count, arguments))
      set_engine_option(session, option);
    else if (const char* pins = value_of("--pins", i, count, arguments))
      parsed.pins = pins;
    else if (const char* counts = value_of("--counts", i, count, arguments))
      parsed.counts = counts;
    else if (arguments[i][0] == '-')
      return false;
    else
      parsed.folders.push_back(full_path(arguments[i]));
  }
  return !parsed.folders.empty();
}

// Prints why a folder gave no topic. A folder of golden numbers that is absent as a whole skips;
// one that lacks a set fails.
int explain_absence(const std::string& folder) {
  if (is_directory(folder)) return fmt::print("FAIL {} holds no cases.json\n", folder), 1;
  if (is_directory(parent_path(folder))) return fmt::print("FAIL {} is not a folder\n", folder), 1;
  fmt::print("skipped: no golden folder {}\n", parent_path(folder));
  return 0;
}

int run(int count, char** arguments) {
  Session session;
  Arguments parsed;
  if (const char* assets = std::getenv("DLLM_ASSETS")) session.assets = assets;
  if (count == 2 && (std::string(arguments[1]) == "--help" || std::string(arguments[1]) == "-h"))
    return std::fputs(kUsage, stdout), 0;
  if (!parse(count, arguments, session, parsed)) return std::fputs(kUsage, stderr), 2;

  int failures = 0;
  std::vector<std::string> run_folders;
  for (const std::string& folder : parsed.folders) {
    std::vector<std::string> topics;
    if (is_directory(folder)) find_topics(folder, 0, topics);
    if (topics.empty())
      failures += explain_absence(folder);
    else
      run_folders.push_back(folder);
    for (const std::string& topic : topics) run_topic(session, topic);
  }
  const TopicCounts total = session.report.total();
  failures += total.failed;
  if (parsed.pins.empty()) {
    for (const auto& [label, topic] : session.report.topics) note_unread(label, topic);
  }
  if (!parsed.pins.empty()) failures += check_pins(parsed.pins, session.report.topics, run_folders);
  if (!parsed.counts.empty()) write_file_atomic(parsed.counts, counts_text(session.report.topics));
  fmt::print("{} passed, {} failed, {} skipped\n", total.passed, total.failed, total.skipped);
  // Pins have the number that must pass; without them a run that compared nothing is no success.
  return failures == 0 && (total.passed > 0 || !parsed.pins.empty()) ? 0 : 1;
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
