#include "decode/policies/spd_rule.h"

#include <algorithm>

namespace dllm::decode {

std::vector<uint8_t> spd_decode_set(std::span<const uint8_t> open,
                                    std::span<const float> probability, float threshold) {
  std::vector<uint8_t> decided(open.size(), 0);
  const auto leftmost = std::find_if(open.begin(), open.end(), [](uint8_t o) { return o != 0; });
  if (leftmost == open.end()) return decided;
  const auto first = static_cast<size_t>(leftmost - open.begin());
  decided[first] = 1;
  for (size_t i = first; i < open.size(); ++i) {
    if (open[i] == 0) continue;
    if (probability[i] < threshold) break;
    decided[i] = 1;
  }
  return decided;
}

SpdSoft spd_likeliest(const Prediction& prediction, int64_t width) {
  SpdSoft soft{prediction.top_ids, prediction.top_probs};
  soft.ids.resize(static_cast<size_t>(width), 0);
  soft.weights.resize(static_cast<size_t>(width), 0.0f);
  return soft;
}

} // namespace dllm::decode
