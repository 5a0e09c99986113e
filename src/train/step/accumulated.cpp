#include "train/step/accumulated.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace dllm::train {

double Accumulated::mean(bool of_means) const {
  return of_means ? mean_sum / static_cast<double>(batches) : sum / std::max(normalizer, 1.0);
}

void Accumulated::add(const StepNumbers& numbers, double run_seconds, double run_flops) {
  sum += numbers.sum;
  normalizer += numbers.normalizer;
  mean_sum += numbers.mean();
  for (const auto& [name, part] : numbers.parts) {
    parts[name].first += part.first;
    parts[name].second += part.second;
  }
  for (const auto& [name, own] : numbers.observed) {
    std::vector<double>& total = observed[name];
    total.resize(own.size());
    std::transform(own.begin(), own.end(), total.begin(), total.begin(), std::plus<>());
  }
  seconds += run_seconds;
  flops += run_flops;
}

} // namespace dllm::train
