#pragma once
// These functions turn the times of repetitions into figures: a JSON object per work, and a table.

#include "bench_work.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace dllm::cli {

// Returns the median; of an even number of values the mean of the two middle values. 0 for none.
double median_of(std::vector<double> values);

struct BenchSeries {
  std::vector<BenchSample> samples;
  // Operations per second of a PeakLoop before each repetition (peaks) and right after it
  // (clock_peaks); empty: not measured.
  std::vector<double> peaks, clock_peaks;
};

// Returns repeats median_seconds min_seconds rows_per_second flops gflops peak_gflops peak_share
// clock_peak_gflops clock_peak_share weight_bytes_read weight_bytes_per_second. REQUIRES: at least
// one repetition.
nlohmann::ordered_json summary_of(const BenchSeries& series, double rows, double bytes);

std::string chip_name();  // from /proc/cpuinfo; "" when unknown
double load_average();    // of the last minute; 0 when unknown
double peak_of_process(); // most bytes that this process had in memory

// Returns a table with a column for each object of summary_of(), to which dllm bench added members.
std::string bench_table(const std::vector<nlohmann::ordered_json>& works);

} // namespace dllm::cli
