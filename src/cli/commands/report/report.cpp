// dllm report draws the records of training runs as one page and as pictures, without a model.

#include "../../pictures/report.h"
#include "../../command.h"
#include "../../options/names.h"
#include "report_watch.h"
#include "run_parts.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>

namespace dllm::cli {
namespace {

std::string page_path(const Context& context, const std::vector<std::string>& runs) {
  if (context.has("out")) return context.text("out");
  if (runs.size() > 1) return "report.html";
  const std::filesystem::path run(runs[0]);
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(run, ignored);
  return ((is_folder ? run : run.parent_path()) / "report.html").string();
}

// Writes each picture that has data into a folder, and returns the paths.
nlohmann::ordered_json write_pictures(const std::string& folder,
                                      const std::vector<Picture>& pictures) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  nlohmann::ordered_json paths = nlohmann::ordered_json::array();
  for (const Picture& picture : pictures) {
    if (picture.svg.empty()) continue;
    paths.push_back(folder + "/" + picture.name + ".svg");
    write_all(paths.back().get<std::string>(), picture.svg);
  }
  std::fprintf(stderr, "wrote %zu pictures into %s\n", paths.size(), folder.c_str());
  return paths;
}

// Returns the facts of one run for --json.
nlohmann::ordered_json json_of(const RunRecord& record) {
  return {{"run", record.name},
          {"steps", record.steps},
          {"examples", record.examples.size()},
          {"bad_lines", record.bad_lines},
          {"bad_numbers", record.bad_numbers}};
}

// Fails for a folder that has folders of runs but no metrics, such as a folder of dllm sweep.
void check_is_run(const std::string& run) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(run, ignored) || fs::exists(fs::path(run) / "metrics.jsonl", ignored))
    return;
  for (const auto& entry : fs::directory_iterator(run, ignored)) {
    if (!fs::exists(entry.path() / "metrics.jsonl", ignored)) continue;
    throw UsageFailure(run + " is not a run: it is a folder of runs",
                       "name the runs: dllm report " + shell_word((fs::path(run) / "").string()) +
                           "*/");
  }
}

int report_runs(Context& context) {
  std::vector<std::string> runs = {context.text("run")};
  runs.insert(runs.end(), context.rest().begin(), context.rest().end());
  for (const std::string& run : runs) check_is_run(run);
  if (context.flag("watch")) {
    for (const char* name : {"out", "svg"}) {
      if (context.typed(name))
        throw UsageFailure(std::string("--") + name +
                           ": --watch serves the page and writes no file");
    }
    constexpr int64_t kMostPort = 65535;
    if (context.number("port") < 0 || context.number("port") > kMostPort)
      throw UsageFailure("--port takes 0 to 65535, not " + context.text("port"));
    return watch_runs(context, runs);
  }
  if (context.typed("port")) throw UsageFailure("--port is for --watch");
  std::vector<RunRecord> records;
  const bool one = runs.size() == 1;
  for (const std::string& run : runs)
    records.push_back(one ? read_run_with_parts(context, run) : read_run(run));
  const std::string page = one ? report_html(records[0]) : compare_html(records),
                    path = page_path(context, runs);
  check_replaces(path, page.substr(0, page.find("<title>")), "a page of dllm report", "--out");
  write_all(path, page);
  std::fprintf(stderr, "wrote %s, %.1f KiB\n", path.c_str(),
               static_cast<double>(page.size()) / 1024);
  for (const RunRecord& record : records) {
    if (record.bad_lines == 0) continue;
    std::fprintf(stderr, "%s: %lld lines of its metrics could not be read and are left out\n",
                 record.name.c_str(), static_cast<long long>(record.bad_lines));
  }
  nlohmann::ordered_json line = {{"page", path}, {"pictures", nlohmann::ordered_json::array()}};
  if (context.has("svg")) {
    line["pictures"] = write_pictures(context.text("svg"), one ? report_pictures(records[0])
                                                               : compare_pictures(records));
  }
  if (!context.json()) return 0;
  if (one) line.update(json_of(records[0]));
  line["runs"] = nlohmann::ordered_json::array();
  for (const RunRecord& record : records) line["runs"].push_back(json_of(record));
  std::printf("%s\n",
              line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  return 0;
}

} // namespace

Command report_command() {
  using Kind = Argument::Kind;
  return {
      "report",
      "draw training runs: losses, predictions, samples of one, or several compared, as one page",
      "dllm report runs/first                                         writes "
      "runs/first/report.html\n"
      "  dllm report runs/first --out page.html --svg pictures\n"
      "  dllm report runs/a runs/b runs/c                               compares them\n"
      "  dllm report --watch runs/a runs/b                              serves the page while they "
      "train",
      {{Kind::positional, "run", "", "the folders of runs, or their files of metrics", true,
        nullptr, true},
       {Kind::text, "out", "",
        "the page: one file, works without a network; default: report.html in the run's folder, or "
        "in this folder for several runs"},
       {Kind::text, "svg", "", "write each picture as a file into this folder too"},
       {Kind::flag, "watch", "",
        "serve the page on this machine, drawn again while the runs train"},
       {Kind::number, "port", "0", "port of --watch; 0: a free one"}},
      {},
      report_runs};
}

} // namespace dllm::cli
