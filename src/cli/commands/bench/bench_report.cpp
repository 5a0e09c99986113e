#include "bench_report.h"

#include "../compile/compile_report.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace dllm::cli {
namespace {

using ReportJson = nlohmann::ordered_json;

std::string figure(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string seconds_text(double seconds) {
  return seconds < 0.1 ? figure("%.3f ms", 1e3 * seconds)
         : seconds < 1 ? figure("%.1f ms", 1e3 * seconds)
                       : figure("%.3f s", seconds);
}

struct TableRow {
  const char* key;
  const char* name;
  std::string (*text)(const ReportJson& value);
};

double as_number(const ReportJson& value) {
  return value.is_number() ? value.get<double>() : 0;
}

std::string count_text(const ReportJson& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}
std::string time_text(const ReportJson& value) {
  return seconds_text(as_number(value));
}
std::string rate_text(const ReportJson& value) {
  return figure("%.4g", as_number(value));
}
std::string share_text(const ReportJson& value) {
  return figure("%.0f %%", 100 * as_number(value));
}
std::string size_text(const ReportJson& value) {
  return bytes_text(as_number(value));
}
std::string flow_text(const ReportJson& value) {
  return figure("%.3g GB/s", as_number(value) / 1e9);
}

constexpr TableRow kRows[] = {
    {"rows", "rows", count_text},
    {"context", "context", count_text},
    {"batch", "batch", count_text},
    {"length", "length", count_text},
    {"logits", "logits", count_text},
    {"repeats", "repeats", count_text},
    {"median_seconds", "median", time_text},
    {"min_seconds", "fastest", time_text},
    {"rows_per_second", "rows/s", rate_text},
    {"gflops", "GFLOP/s", rate_text},
    {"peak_gflops", "peak GFLOP/s", rate_text},
    {"peak_share", "of the peak", share_text},
    {"clock_peak_share", "at its clock", share_text},
    {"weight_bytes_per_second", "weights read", flow_text},
    {"weight_bytes", "weights", size_text},
    {"engine_peak_bytes", "engine at most", size_text},
    {"process_peak_bytes", "process at most", size_text},
    {"load", "load average", rate_text},
};

} // namespace

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

ReportJson summary_of(const BenchSeries& series, double rows, double bytes) {
  std::vector<double> seconds, rates, flops;
  for (const BenchSample& sample : series.samples) {
    seconds.push_back(sample.seconds);
    flops.push_back(sample.flops);
    rates.push_back(sample.flops / sample.seconds);
  }
  const double median = median_of(seconds), rate = median_of(rates);
  ReportJson line = {{"repeats", seconds.size()},
                     {"median_seconds", median},
                     {"min_seconds", *std::min_element(seconds.begin(), seconds.end())},
                     {"rows_per_second", rows / median},
                     {"flops", median_of(flops)},
                     {"gflops", rate / 1e9}};
  const auto add_peak = [&](const std::string& name, double peak) {
    line[name + "_gflops"] = peak > 0 ? ReportJson(peak / 1e9) : ReportJson();
    line[name + "_share"] = peak > 0 ? ReportJson(rate / peak) : ReportJson();
  };
  add_peak("peak", median_of(series.peaks));
  add_peak("clock_peak", median_of(series.clock_peaks));
  line["weight_bytes_read"] = bytes;
  line["weight_bytes_per_second"] = bytes / median;
  return line;
}

std::string chip_name() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return "";
}

double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

double peak_of_process() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
#if defined(__APPLE__)
  return static_cast<double>(usage.ru_maxrss);
#else
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
#endif
}

std::string bench_table(const std::vector<ReportJson>& works) {
  const auto cell = [](const std::string& text) {
    return std::string(text.size() < 12 ? 12 - text.size() : 1, ' ') + text;
  };
  std::string table = std::string(16, ' ');
  for (const ReportJson& work : works) table += cell(work.value("what", ""));
  table += "\n";
  for (const TableRow& line : kRows) {
    const auto has = [&](const ReportJson& work) {
      return work.contains(line.key) && !work[line.key].is_null();
    };
    if (std::none_of(works.begin(), works.end(), has)) continue;
    std::string row = line.name;
    row.resize(16, ' ');
    for (const ReportJson& work : works) row += cell(has(work) ? line.text(work[line.key]) : "");
    row.erase(row.find_last_not_of(' ') + 1);
    table += row + "\n";
  }
  return table;
}

} // namespace dllm::cli
