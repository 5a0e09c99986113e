#include "generate/queue/durations.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::generate {

void Durations::add(double seconds) {
  ++counts_[static_cast<size_t>(std::ranges::lower_bound(kEdges, seconds) - kEdges.begin())];
  seconds_ += seconds;
}

Json Durations::to_json() const {
  return {{"edges", kEdges}, {"counts", counts_}, {"seconds", seconds_}};
}

} // namespace dllm::generate
