#include "report_watch.h"

#include "../../http/http_server.h"
#include "../../pictures/report.h"
#include "../../processes/process.h"
#include "run_parts.h"

#include <cstdio>
#include <filesystem>

namespace dllm::cli {
namespace {

namespace fs = std::filesystem;

// The pages of some runs. They are drawn again only after a file of a run changed.
class LivePages {
public:
  LivePages(const Context& context, std::vector<std::string> runs)
      : context_(context), runs_(std::move(runs)) {}

  HttpAnswer answer(const std::string& path) {
    if (path == "/") return {200, "text/html; charset=utf-8", live_page(name())};
    if (path == "/live.js")
      return {200, "text/javascript; charset=utf-8", std::string(kLiveScript)};
    if (path != "/body") return {404, "text/plain; charset=utf-8", "there is no " + path + "\n"};
    const std::string stamp = stamp_of_files();
    if (stamp != stamp_ || body_.empty()) body_ = draw();
    stamp_ = stamp;
    return {200, "text/html; charset=utf-8", body_};
  }

private:
  std::string name() const {
    return runs_.size() == 1 ? runs_[0] : std::to_string(runs_.size()) + " runs";
  }

  // Returns sizes and times of the files of all runs.
  std::string stamp_of_files() const {
    std::string stamp;
    for (const std::string& run : runs_) {
      for (const char* file : {"", "/metrics.jsonl", "/examples.jsonl", "/run.json"}) {
        std::error_code missing;
        const auto size = fs::file_size(run + file, missing);
        const auto time = fs::last_write_time(run + file, missing);
        stamp += missing ? "-;"
                         : std::to_string(size) + "," +
                               std::to_string(time.time_since_epoch().count()) + ";";
      }
    }
    return stamp;
  }

  // A run that has not taken a step yet has a sentence.
  std::string draw() const {
    std::vector<RunRecord> records;
    std::string notes;
    for (const std::string& run : runs_) {
      try {
        records.push_back(runs_.size() == 1 ? read_run_with_parts(context_, run) : read_run(run));
      } catch (const Failure& failure) {
        notes += note_html(std::string("There is nothing to draw yet: ") + failure.what());
      }
    }
    if (records.empty()) return notes;
    return (records.size() == 1 ? report_body(records[0]) : compare_body(records)) + notes;
  }

  const Context& context_;
  std::vector<std::string> runs_;
  std::string stamp_, body_;
};

} // namespace

int watch_runs(const Context& context, const std::vector<std::string>& runs) {
  LivePages pages(context, runs);
  HttpSettings settings;
  settings.port = context.number("port");
  HttpServer server(settings, [&](const HttpExchangeRef& exchange) {
    exchange->send(pages.answer(exchange->path()));
  });
  std::printf("http://127.0.0.1:%lld/\n", static_cast<long long>(server.port()));
  std::fflush(stdout);
  std::fprintf(stderr, "this machine alone can open the page; Ctrl-C ends it\n");
  server.run([&] {
    if (dllm_task_is_cancelled(context.task()) != 0) server.stop();
  });
  return interrupted_code();
}

} // namespace dllm::cli
