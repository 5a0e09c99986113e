#include "cli/commands/train/training_best.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dllm::cli {
namespace {

TEST(Best, TheLowestLossCountsAndTheOthersAreCounted) {
  Best best;
  EXPECT_FALSE(best.has_loss());
  EXPECT_TRUE(best.add(10, 3));
  EXPECT_FALSE(best.add(20, 3)); // as low is not lower
  EXPECT_FALSE(best.add(30, std::nan("")));
  EXPECT_FALSE(best.add(40, std::numeric_limits<double>::infinity()));
  EXPECT_EQ(best.without(), 3);
  EXPECT_EQ(best.step(), 10);
  EXPECT_TRUE(best.add(50, 2.5));
  EXPECT_EQ(best.without(), 0);
  EXPECT_EQ(best.loss(), 2.5);
}

TEST(Best, AFirstLossThatIsNotFiniteIsNone) {
  Best best;
  EXPECT_FALSE(best.add(10, std::nan("")));
  EXPECT_FALSE(best.has_loss());
  EXPECT_TRUE(best.add(20, 9));
}

// A run that was killed goes back, and evaluates steps again.
TEST(Best, StepsThatComeAgainAreNotCountedTwice) {
  Best first;
  first.add(10, 3);
  first.add(20, 2);
  first.add(30, 4);
  Best again = Best::of(first.record());
  EXPECT_EQ(again.step(), 20);
  EXPECT_TRUE(again.add(20, 2)); // its checkpoint may not have been on disk
  EXPECT_FALSE(again.add(30, 4));
  EXPECT_EQ(again.without(), 0);
  EXPECT_FALSE(again.add(40, 4));
  EXPECT_EQ(again.without(), 1);
}

TEST(Best, ADamagedRecordIsEmpty) {
  using Json = nlohmann::ordered_json;
  for (const Json& record :
       {Json::object(), Json{{"step", 3}}, Json{{"step", "3"}, {"loss", 1.0}},
        Json{{"step", -3}, {"loss", 1.0}}, Json{{"step", 3}, {"loss", nullptr}}})
    EXPECT_FALSE(Best::of(record).has_loss()) << record;
  EXPECT_EQ(Best::of({{"step", 3}, {"loss", 1.0}, {"without", -5}}).without(), 0);
}

} // namespace
} // namespace dllm::cli
