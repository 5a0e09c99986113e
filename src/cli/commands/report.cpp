// dllm report draws the record of a training run as one page and as pictures, without a model.

#include "../pictures/report.h"
#include "../command.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace dllm::cli {
namespace {

void write_picture(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file) throw Failure(DLLM_PERMISSION_DENIED, "cannot write " + path);
}

std::string page_path(const Context& context) {
  if (context.has("out")) return context.text("out");
  const std::filesystem::path run(context.text("run"));
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(run, ignored);
  return ((is_folder ? run : run.parent_path()) / "report.html").string();
}

int report_run(Context& context) {
  const RunRecord record = read_run(context.text("run"));
  const std::string page = report_html(record), path = page_path(context);
  write_picture(path, page);
  std::fprintf(stderr, "wrote %s, %.1f KiB\n", path.c_str(),
               static_cast<double>(page.size()) / 1024);
  nlohmann::ordered_json pictures = nlohmann::ordered_json::array();
  if (context.has("svg")) {
    const std::string folder = context.text("svg");
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    for (const Picture& picture : report_pictures(record)) {
      if (picture.svg.empty()) continue;
      const std::string file = folder + "/" + picture.name + ".svg";
      write_picture(file, picture.svg);
      pictures.push_back(file);
    }
    std::fprintf(stderr, "wrote %zu pictures into %s\n", pictures.size(), folder.c_str());
  }
  if (!context.json()) return 0;
  const nlohmann::ordered_json line = {{"page", path},
                                       {"pictures", pictures},
                                       {"steps", record.steps},
                                       {"examples", record.examples.size()},
                                       {"bad_lines", record.bad_lines},
                                       {"bad_numbers", record.bad_numbers}};
  std::printf("%s\n",
              line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  return 0;
}

} // namespace

Command report_command() {
  using Kind = Argument::Kind;
  return {
      "report",
      "draw a training run: losses, predictions, samples, as one page",
      "dllm report runs/first                                         writes "
      "runs/first/report.html\n"
      "  dllm report runs/first --out page.html --svg pictures",
      {{Kind::positional, "run", "", "the folder of a run, or its file of metrics", true},
       {Kind::text, "out", "",
        "the page: one file, works without a network; default: report.html in the run's folder"},
       {Kind::text, "svg", "", "write each picture as a file into this folder too"}},
      {},
      report_run};
}

} // namespace dllm::cli
