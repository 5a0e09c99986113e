#include "noise/latent/warm_up.h"

#include <cmath>

namespace dllm::noise {

double warm_up(int64_t update, int64_t updates, double least) {
  if (update >= updates) return 1;
  constexpr double kRate = 10, kMiddle = 0.8; // k and c of the paper
  const auto logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double done = static_cast<double>(update) / static_cast<double>(updates);
  const double low = logistic(-kRate * kMiddle), high = logistic(kRate * (1 - kMiddle));
  return least + (1 - least) * (logistic(kRate * (done - kMiddle)) - low) / (high - low);
}

} // namespace dllm::noise
