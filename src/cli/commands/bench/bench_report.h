#pragma once
// Times of repetitions as figures: one JSON object per work, a table of several.

#include "bench_work.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace dllm::cli {

// The middle one; of an even number the mean of the two in the middle. 0 for none.
double median_of(std::vector<double> values);

struct BenchSeries {
  std::vector<BenchSample> samples;
  // Operations per second in registers, before each repetition and right after it; empty: not measured.
  std::vector<double> peaks, clock_peaks;
};

// repeats median_seconds min_seconds rows_per_second flops gflops peak_gflops peak_share clock_peak_gflops clock_peak_share
// weight_bytes_read weight_bytes_per_second, of a work with at least one repetition.
nlohmann::ordered_json summary_of(const BenchSeries& series, double rows, double bytes);

std::string chip_name();  // of /proc/cpuinfo; "" where there is none
double load_average();    // of the last minute, 0 where it is not known
double peak_of_process(); // bytes this process had in memory at most

// A column for each object of summary_of with the members that dllm bench adds.
std::string bench_table(const std::vector<nlohmann::ordered_json>& works);

} // namespace dllm::cli
