#include "noise/latent/running_statistics.h"

#include "graph/ops.h"

#include <algorithm>
#include <array>

namespace dllm::noise {

RunningStatistics merged(const RunningStatistics& before, const CenteredSums& sums,
                         bool mean_of_variances) {
  if (sums.count <= 0) return before;
  const double count = before.count + sums.count, share = sums.count / count;
  const double shift = sums.first / sums.count;
  const double variance = std::max(sums.second / sums.count - shift * shift, 0.0);
  const double apart = sums.center + shift - before.mean;
  RunningStatistics made;
  made.count = count;
  made.mean = before.mean + share * apart;
  const double within = (1 - share) * before.variance + share * variance;
  made.variance = mean_of_variances ? within : within + share * (1 - share) * apart * apart;
  return made;
}

Tensor to_array(const RunningStatistics& statistics) {
  const std::array<double, 3> numbers = {statistics.count, statistics.mean, statistics.variance};
  Tensor made(DType::f32, {2, 3});
  const auto to = made.mutable_as<float>();
  for (size_t i = 0; i < numbers.size(); ++i) {
    to[i] = static_cast<float>(numbers[i]);
    to[3 + i] = static_cast<float>(numbers[i] - static_cast<double>(to[i]));
  }
  return made;
}

RunningStatistics running_statistics(const Tensor& array) {
  const auto from = array.as<float>();
  const auto number = [&](size_t i) {
    return static_cast<double>(from[i]) + static_cast<double>(from[3 + i]);
  };
  return {number(0), number(1), number(2)};
}

graph::Value merged_mean_of_variances(graph::Value statistics, graph::Value count,
                                      graph::Value first, graph::Value second) {
  const auto before = [&](int64_t i) {
    return graph::reshape(graph::slice_axis(statistics, 0, i, i + 1), {});
  };
  const graph::Value total = graph::add(before(0), count), share = graph::divide(count, total);
  const graph::Value mean = graph::divide(first, count);
  const graph::Value variance =
      graph::subtract(graph::divide(second, count), graph::multiply(mean, mean));
  const auto mixed = [&](graph::Value old, graph::Value now) {
    return graph::reshape(graph::add(old, graph::multiply(share, graph::subtract(now, old))), {1});
  };
  return graph::concat(
      {graph::reshape(total, {1}), mixed(before(1), mean), mixed(before(2), variance)}, 0);
}

} // namespace dllm::noise
