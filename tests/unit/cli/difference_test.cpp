// Figures of two models' predictions against numbers worked out by hand.

#include "cli/commands/verify/difference.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::cli {
namespace {

TEST(Difference, OfOnePosition) {
  // Probabilities 1/2 1/4 1/4 and 1/4 1/2 1/4.
  const float half = std::log(0.5f), quarter = std::log(0.25f);
  const std::vector<float> model = {half + 3, quarter + 3, quarter + 3},
                           reference = {quarter, half, quarter};
  const PositionDifference found = difference_of(model, reference, 1);
  EXPECT_NEAR(found.kl, 0.25 * std::log(2.0), 1e-6); // 1/4 log(1/2) + 1/2 log 2
  EXPECT_NEAR(found.nll, std::log(4.0), 1e-6);
  EXPECT_NEAR(found.reference_nll, std::log(2.0), 1e-6);
  EXPECT_FALSE(found.same_top);
  const PositionDifference same = difference_of(model, model, 0);
  EXPECT_EQ(same.kl, 0);
  EXPECT_TRUE(same.same_top);
}

TEST(Difference, CountsTheFiveMostProbable) {
  const std::vector<float> a = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, b = {5, 6, 7, 8, 9, 0, 1, 2, 3, 4},
                           c = {9, 8, 7, 1, 2, 3, 6, 5, 4, 0};
  EXPECT_EQ(difference_of(a, b, 0).shared_top, 5);
  EXPECT_EQ(difference_of(a, c, 0).shared_top, 3);
  EXPECT_TRUE(difference_of(a, c, 0).same_top);
}

TEST(Difference, SummaryOfPositions) {
  std::vector<PositionDifference> all;
  for (int i = 1; i <= 4; ++i)
    all.push_back({static_cast<double>(i), 2.0 + (i % 2 == 0 ? 0.5 : 0.1), 2.0, i > 1, i});
  const auto summary = difference_summary(all);
  EXPECT_EQ(summary["positions"], 4);
  EXPECT_DOUBLE_EQ(summary["kl"]["mean"].get<double>(), 2.5);
  EXPECT_DOUBLE_EQ(summary["kl"]["median"].get<double>(), 2.5);
  EXPECT_DOUBLE_EQ(summary["kl"]["p99"].get<double>(), 3.97);
  EXPECT_DOUBLE_EQ(summary["kl"]["max"].get<double>(), 4);
  EXPECT_DOUBLE_EQ(summary["top1"].get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(summary["top5"].get<double>(), 0.5);
  EXPECT_NEAR(summary["change"].get<double>(), 0.3, 1e-12);
  EXPECT_NEAR(summary["stderr"].get<double>(), 0.2 / std::sqrt(3.0), 1e-12);
  EXPECT_NEAR(summary["perplexity"].get<double>(), std::exp(2.3), 1e-9);
}

} // namespace
} // namespace dllm::cli
