#include "train/sinks/csv_sink.h"

#include "base/error.h"
#include "train/sinks/event_metrics.h"
#include "train/sinks/record_file.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

namespace dllm::train {
namespace {

constexpr std::string_view kFirstColumn = "step";

// The first line of a table. Each column is one of event_metrics(), so that every run has the same.
std::string header() {
  std::string line;
  for (const EventMetric& metric : event_metrics()) {
    line += (line.empty() ? "" : ",") + metric.column();
  }
  return line + "\n";
}

std::string cell(double value) {
  if (std::isnan(value)) return {};
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return fmt::format("{}", value); // the fewest digits that give the number again
}

bool is_undone(std::string_view line, int64_t step) {
  int64_t own = 0;
  const auto end = std::from_chars(line.data(), line.data() + line.size(), own);
  return end.ec == std::errc() && own > step;
}

// Returns the first line of a regular file; "" of another, which may have no end.
std::string first_line(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  std::ifstream file(path, std::ios::binary);
  std::string line;
  std::getline(file, line);
  return line;
}

class CsvSink final : public Sink {
public:
  CsvSink(const std::string& path, int64_t every, bool append)
      : every_(every), file_("csv", path, append) {
    const std::string first = append ? first_line(path) : "";
    if (first.empty()) {
      file_.write(header());
    } else if (first + "\n" != header()) {
      fail_with_hint("move the file away, name another one, or set append = false",
                     Code::invalid_argument,
                     "sink csv: {} has other columns than this version writes", path);
    }
  }

  void rewind(int64_t step) override {
    file_.rewind([step](std::string_view line) { return is_undone(line, step); });
  }
  void write(const Event& event, const Progress&) override {
    const bool is_step = event.kind() == EventKind::train_step;
    if (!is_step && event.kind() != EventKind::eval) return;
    if (is_step && count_++ % every_ != 0) return;
    std::string line;
    for (const EventMetric& metric : event_metrics()) {
      const bool is_own = metric.event == event.kind() || metric.column() == kFirstColumn;
      if (metric.column() != kFirstColumn) line += ',';
      if (is_own) line += cell(number_of(event, metric.key));
    }
    file_.write(line + "\n");
  }
  void finish() override { file_.finish(); }

private:
  int64_t every_;
  int64_t count_ = 0;
  RecordFile file_;
};

} // namespace

std::unique_ptr<Sink> make_csv_sink(const std::string& path, const Options& options) {
  return std::make_unique<CsvSink>(path, options.i64("every"), options.boolean("append"));
}

} // namespace dllm::train
