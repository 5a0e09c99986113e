#pragma once
// Losses of a run on a mesh next to those of one rank. Every comparison prints its greatest
// relative difference: the table of docs/concepts/parallelism.md is made of these lines.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace dllm::train {

// The order of sums in f32 differs, nothing else: some 1e-7 where a step is right.
constexpr double kLossDifference = 1e-5;

inline void expect_losses(const std::vector<double>& got, const std::vector<double>& wanted,
                          const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double most = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double difference = std::abs(got[i] - wanted[i]) / std::abs(wanted[i]);
    EXPECT_LE(difference, kLossDifference) << what << " step " << i;
    most = std::max(most, difference);
  }
  std::printf("%s: greatest relative difference of %zu losses %.1e\n", what.c_str(), got.size(),
              most);
}

} // namespace dllm::train
