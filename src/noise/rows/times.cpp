#include "noise/rows/times.h"

#include "base/error.h"
#include "base/random.h"

#include <algorithm>
#include <cmath>

namespace dllm::noise {

std::vector<OptionSpec> time_options(double limit) {
  return {
      option_f64("time_epsilon", 1e-3, 0.0, 1.0, "Smallest time that is drawn."),
      option_f64("time_limit", limit, 0.0, 1.0, "Largest time that is drawn."),
      option_choice(
          "time_sampling", "uniform", {"uniform", "low_discrepancy", "importance"},
          "low_discrepancy spreads the times of an update evenly; importance draws small times "
          "more often (log-uniform) and weighs them less, which gives the same loss on average."),
  };
}

TimeSampler::TimeSampler(const Options& options)
    : low_(options.f64("time_epsilon")), high_(options.f64("time_limit")),
      spreads_(options.str("time_sampling") == "low_discrepancy"),
      log_uniform_(options.str("time_sampling") == "importance") {
  if (low_ > high_)
    fail(Code::invalid_argument, "time_epsilon {} is above time_limit {}", low_, high_);
  if (log_uniform_ && low_ <= 0) {
    fail_with_hint("set time_epsilon = 0.001", Code::invalid_argument,
                   "time_sampling importance needs a time_epsilon above 0");
  }
}

std::vector<float> TimeSampler::draws(int64_t rows, int64_t times,
                                      std::pair<int64_t, int64_t> global, uint64_t seed,
                                      int64_t step) const {
  std::vector<float> made;
  made.reserve(static_cast<size_t>(rows * times));
  const double n = static_cast<double>(std::max<int64_t>(global.second * times, 1));
  for (int64_t b = 0; b < rows; ++b) {
    const Key key = stream_key(seed, Stream::time, static_cast<uint64_t>(step),
                               static_cast<uint64_t>(global.first + b));
    for (int64_t k = 0; k < times; ++k) {
      float u = uniform_from_bits(random_bits_at(key, static_cast<uint64_t>(k)));
      if (spreads_) {
        const auto i = static_cast<double>((global.first + b) * times + k);
        u = static_cast<float>(std::fmod((u + i) / n, 1.0));
      }
      made.push_back(u);
    }
  }
  return made;
}

float TimeSampler::time(float uniform) const {
  const auto low = static_cast<float>(low_), high = static_cast<float>(high_);
  return log_uniform_ ? low * std::pow(high / low, uniform) : low + (high - low) * uniform;
}

double TimeSampler::density(double t) const {
  return log_uniform_ && high_ > low_ ? t * std::log(high_ / low_) / (high_ - low_) : 1.0;
}

} // namespace dllm::noise
