#include "cli/commands/train/training_divergence.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dllm::cli {
namespace {

// Adds the losses and returns the first sentence.
std::string first_of(const std::vector<double>& losses) {
  Divergence divergence;
  for (size_t i = 0; i < losses.size(); ++i) {
    const std::string found = divergence.add(static_cast<int64_t>(i) + 1, losses[i]);
    if (!found.empty()) return found;
  }
  return {};
}

std::vector<double> falling(size_t count) {
  std::vector<double> losses;
  for (size_t i = 0; i < count; ++i) losses.push_back(1 + 5 * std::exp(-0.01 * double(i)));
  return losses;
}

TEST(Divergence, LossesThatFallOrJumpHaveNoLine) {
  EXPECT_EQ(first_of(falling(1000)), "");
  std::vector<double> jumps = falling(1000);
  for (size_t i = 0; i < jumps.size(); i += 3) jumps[i] *= 100; // the weights of some batches
  EXPECT_EQ(first_of(jumps), "");
  EXPECT_EQ(first_of({5, std::nan(""), 5}), "");
  EXPECT_EQ(first_of({}), "");
}

TEST(Divergence, ALossThatStaysFarAboveItsLowestIsNamedWithStepAndNumbers) {
  std::vector<double> losses = falling(300);
  losses.insert(losses.end(), 30, 50.0);
  const std::string found = first_of(losses);
  EXPECT_NE(found.find("step 320: the last 20 losses are above 50"), std::string::npos) << found;
  EXPECT_NE(found.find("at step 300"), std::string::npos) << found;
}

TEST(Divergence, TheFirstLossIsEnoughToCompareWith) {
  std::vector<double> losses(21, 500.0);
  losses[0] = 6;
  EXPECT_NE(first_of(losses).find("the lowest was 6 at step 1"), std::string::npos);
}

} // namespace
} // namespace dllm::cli
