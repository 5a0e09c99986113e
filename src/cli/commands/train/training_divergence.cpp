#include "training_divergence.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace dllm::cli {

std::string Divergence::add(int64_t step, double loss) {
  if (!std::isfinite(loss)) return {};
  if (lowest_step_ < 0) { // the weights of the first step are not trained yet
    lowest_ = loss;
    lowest_step_ = step;
  }
  last_.push_back(loss);
  if (last_.size() < kCount) return {};
  if (last_.size() > kCount) last_.pop_front();
  const double mean = std::accumulate(last_.begin(), last_.end(), 0.0) / kCount;
  if (mean < lowest_) {
    lowest_ = mean;
    lowest_step_ = step;
  }
  const double least = *std::min_element(last_.begin(), last_.end());
  if (!(least > 2 * std::max(lowest_, 0.0) + 1)) return {};
  char text[160];
  std::snprintf(text, sizeof text,
                "step %lld: the last %zu losses are above %.4g, and the lowest was %.4g at step "
                "%lld",
                static_cast<long long>(step), kCount, least, lowest_,
                static_cast<long long>(lowest_step_));
  return text;
}

} // namespace dllm::cli
