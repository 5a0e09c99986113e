#include "decode/policies/factories.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace dllm::decode {
namespace {

// std::nearbyint follows the host's rounding mode; this does not.
int64_t round_half_even(double x) {
  const double low = std::floor(x);
  const double rest = x - low;
  const auto whole = static_cast<int64_t>(low);
  if (rest > 0.5) return whole + 1;
  if (rest < 0.5) return whole;
  return whole % 2 == 0 ? whole : whole + 1;
}

// 1 - alpha(t), every operation in single precision as in the published schedule: ties of the
// rounding below fall as they do there. Discrete times stay as they are.
float masked_share(const noise::Schedule& schedule, double t) {
  const double at = schedule.steps() > 0 ? t : static_cast<double>(static_cast<float>(t));
  return 1.0f - static_cast<float>(schedule.alpha(at));
}

} // namespace

std::vector<int64_t> transfer_counts(const noise::Schedule& schedule, int64_t open, int64_t steps) {
  std::vector<int64_t> counts;
  int64_t left = open;
  for (int64_t j = 0; j < steps && left > 0; ++j) {
    const double t = static_cast<double>(steps - j) / static_cast<double>(steps);
    const double s = static_cast<double>(steps - j - 1) / static_cast<double>(steps);
    const float stay = masked_share(schedule, s) / masked_share(schedule, t);
    const double reveal = s <= 0 ? 1.0 : 1.0 - static_cast<double>(stay);
    const int64_t count = std::min(round_half_even(static_cast<double>(left) * reveal), left);
    if (count <= 0) continue;
    counts.push_back(count);
    left -= count;
  }
  return counts;
}

std::vector<int64_t> even_counts(int64_t open, int64_t steps) {
  std::vector<int64_t> counts;
  for (int64_t j = 0; j < std::min(steps, open); ++j)
    counts.push_back(open / steps + (j < open % steps ? 1 : 0));
  return counts;
}

int64_t transfer_at(const std::vector<int64_t>& transfer, int64_t step) {
  return step < static_cast<int64_t>(transfer.size()) ? transfer[static_cast<size_t>(step)]
                                                      : INT32_MAX;
}

} // namespace dllm::decode
