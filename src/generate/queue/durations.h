#pragma once
// Durations are the times of many requests, counted in ranges as in a histogram of Prometheus.

#include "base/json.h"

#include <array>
#include <cstdint>

namespace dllm::generate {

class Durations {
public:
  // Upper edges of the ranges in seconds. Longer times have a range of their own.
  static constexpr std::array<double, 12> kEdges{0.01, 0.03, 0.1, 0.3, 1,   2,
                                                 5,    10,   30,  60,  120, 300};

  void add(double seconds);
  // Returns {"edges": [...], "counts": [...], "seconds": their sum}. There is one count more than
  // edges. A time that equals an edge is below it.
  Json to_json() const;

private:
  std::array<int64_t, kEdges.size() + 1> counts_{};
  double seconds_ = 0;
};

} // namespace dllm::generate
