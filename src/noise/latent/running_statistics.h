#pragma once
// The running mean and variance of numbers that a loss reads, as arrays that training keeps
// (noise/objective_state.h). Merging is exact for any cut of the numbers (Welford 1962; Chan et al.
// 1979).

#include "graph/graph.h"
#include "tensor/tensor.h"

#include <span>

namespace dllm::noise {

struct RunningStatistics {
  double count = 0, mean = 0, variance = 1; // of no numbers: 0 and 1
};

// Sums over the numbers of one update, around `center`.
struct CenteredSums {
  double count = 0;
  double first = 0;  // sum of x - center
  double second = 0; // sum of (x - center)^2
  double center = 0;
};

// Returns the statistics of both. With `mean_of_variances` the variance is the mean of both
// variances, weighted by their counts, without the distance of the means (dLLM-castlehill).
RunningStatistics merged(const RunningStatistics& before, const CenteredSums& sums,
                         bool mean_of_variances = false);

// The statistics as f32(2, 3) and back: a row of count, mean and variance, and a row with what the
// first row's rounding left out. So a count of 2^40 still grows by one.
Tensor to_array(const RunningStatistics& statistics);
RunningStatistics running_statistics(const Tensor& array);

// The same arithmetic in a graph, for a loss that counts its batch before it reads the statistics
// (dLLM-castlehill). `statistics` is f32(3), the sums are f32 scalars around 0.
graph::Value merged_mean_of_variances(graph::Value statistics, graph::Value count,
                                      graph::Value first, graph::Value second);

} // namespace dllm::noise
