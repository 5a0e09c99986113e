#include "train/trainer.h"

#include "base/error.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dllm::train {
namespace {

// dllm-jax, by hand: total 10, peak 1e-3, warm-up 1, counted from zero.
TEST(LearningRate, ReferenceTables) {
  LearningRate rate{"cosine", 0, 1, 10, 0, true};
  const double cosine[] = {0,          1e-3,   9.69846e-4, 8.83022e-4, 7.5e-4, 5.86824e-4,
                           4.13176e-4, 2.5e-4, 1.16978e-4, 3.01537e-5, 0,      0};
  for (int i = 0; i < 12; ++i) EXPECT_NEAR(1e-3 * rate.factor(i), cosine[i], 1e-9) << i;
  rate.kind = "linear";
  EXPECT_NEAR(1e-3 * rate.factor(2), 8.88889e-4, 1e-9);
  EXPECT_NEAR(1e-3 * rate.factor(9), 1.11111e-4, 1e-9);
}

TEST(LearningRate, OursNeverWastesTheFirstUpdate) {
  const LearningRate rate{"cosine", 0.1, 4, 20, 0, false};
  EXPECT_NEAR(rate.factor(0), 0.25, 1e-12);
  EXPECT_NEAR(rate.factor(3), 1.0, 1e-12);
  EXPECT_NEAR(rate.factor(4), 1.0, 1e-12);
  EXPECT_GT(rate.factor(19), 0.1);
  EXPECT_NEAR(rate.factor(20), 0.1, 1e-12);
  EXPECT_NEAR(rate.factor(500), 0.1, 1e-12);
}

TEST(LearningRate, WsdIsFlatThenFalls) {
  const LearningRate rate{"wsd", 0, 2, 20, 10, false};
  EXPECT_NEAR(rate.factor(9), 1.0, 1e-12);
  EXPECT_NEAR(rate.factor(15), 0.5, 1e-12);
  EXPECT_NEAR(rate.factor(20), 0.0, 1e-12);
}

TEST(LearningRate, InverseSqrtFallsFromWarmUpOn) {
  const LearningRate rate{"inverse_sqrt", 0.2, 4, 0, 0, false};
  EXPECT_NEAR(rate.factor(1), 0.5, 1e-12);
  EXPECT_NEAR(rate.factor(3), 1.0, 1e-12); // update 4
  EXPECT_NEAR(rate.factor(15), 0.5, 1e-12);
  EXPECT_NEAR(rate.factor(400), 0.2, 1e-12); // the floor
}

TEST(TrainerOptions, IntervalsBelowOneArePartsOfARun) {
  EXPECT_EQ(interval_steps("save_every", 0.1, 15), 2);
  EXPECT_EQ(interval_steps("save_every", 0.001, 15), 1);
  EXPECT_EQ(interval_steps("save_every", 2.7, 15), 2);
  EXPECT_EQ(interval_steps("save_every", 0, 15), 0);
  EXPECT_THROW(interval_steps("save_every", 0.1, 0), Error);
}

TEST(TrainerOptions, BadCombinationsAreNamed) {
  const auto message = [](const Json& values) -> std::string {
    Options options(trainer_schema());
    options.set_json(values);
    try {
      learning_rate_of(options);
    } catch (const Error& error) {
      return error.text();
    }
    return "no error";
  };
  EXPECT_NE(message({{"schedule", "cosine"}}).find("needs the number of steps"), std::string::npos);
  EXPECT_NE(message({{"lr", 1e-3}, {"min_lr", 1e-2}}).find("above lr"), std::string::npos);
  EXPECT_NE(
      message({{"schedule", "linear"}, {"steps", 10}, {"warmup", 10}}).find("leaves nothing of 10"),
      std::string::npos);
  EXPECT_EQ(message({{"schedule", "linear"}, {"steps", 10}}), "no error");
  EXPECT_NE(message({{"schedule", "inverse_sqrt"}}).find("from the end of warm-up on"),
            std::string::npos);
  EXPECT_EQ(message({{"schedule", "inverse_sqrt"}, {"warmup", 10}}), "no error");
}

TEST(LearningRate, TheClockMovesTheSchedule) {
  LearningRate rate;
  rate.kind = "cosine";
  rate.total = 1000;
  EXPECT_EQ(rate.factor(400, 0.2), rate.factor(400));          // steps are further
  EXPECT_NEAR(rate.factor(400, 0.8), rate.factor(800), 1e-12); // 500 updates in all
  EXPECT_NEAR(rate.factor(400, 1.0), 0.0, 1e-12);

  Options options(trainer_schema());
  options.set_json({{"schedule", "cosine"}, {"minutes", 3.0}});
  const LearningRate clock = learning_rate_of(options); // no number of steps is known
  EXPECT_LT(clock.factor(100, 0.01), 0.21);             // a twentieth is warm-up
  EXPECT_NEAR(clock.factor(100, 0.05), 1.0, 1e-9);
  EXPECT_NEAR(clock.factor(9, 0.525), 0.5, 1e-5);
  EXPECT_NEAR(clock.factor(9, 1.0), 0.0, 1e-9);
  options.set_i64("warmup", 10); // updates, also where their number is not known
  const LearningRate counted = learning_rate_of(options);
  EXPECT_NEAR(counted.factor(4, 0.01), 0.5, 1e-9);
  EXPECT_EQ(counted.factor(10, 0.5), 1.0); // the warm-up ends at the peak
  EXPECT_NEAR(counted.factor(15, 0.75), 0.5, 1e-9);
  EXPECT_NEAR(counted.factor(4, 1.0), 0.0, 1e-9);
  options.set_str("schedule", "constant");
  EXPECT_NEAR(learning_rate_of(options).factor(4, 0.9), 0.5, 1e-9);
  EXPECT_EQ(learning_rate_of(options).factor(10, 0.9), 1.0);
  options.set_json({{"schedule", "wsd"}, {"cooldown_start", 10}});
  EXPECT_THROW(learning_rate_of(options), Error);
}

TEST(LearningRate, TokensMoveTheSchedule) {
  Options options(trainer_schema());
  options.set_json({{"schedule", "cosine"}, {"tokens", 4000}});
  const LearningRate rate = learning_rate_of(options);
  EXPECT_EQ(token_share(options, 1000), 0.25);
  EXPECT_EQ(token_share(options, 5000), 1.0);
  EXPECT_NEAR(rate.factor(9, token_share(options, 2100)), 0.5, 1e-5);
  EXPECT_NEAR(rate.factor(9, token_share(options, 4000)), 0.0, 1e-9);
  EXPECT_EQ(token_share(Options(trainer_schema()), 5000), 0.0);
}

// A budget has the rates of a run by steps of the same number of updates, in every schedule.
TEST(LearningRate, ABudgetHasTheRatesOfItsUpdates) {
  for (const char* schedule : {"constant", "linear", "cosine", "wsd", "inverse_sqrt"}) {
    for (const int64_t warmup : {-1, 0, 1, 10}) {
      for (const int64_t updates : {20, 40, 257}) {
        SCOPED_TRACE(std::string(schedule) + " warmup " + std::to_string(warmup) + " of " +
                     std::to_string(updates));
        if (schedule == std::string("inverse_sqrt") && warmup == 0) continue;
        const Json common = {{"schedule", schedule}, {"warmup", warmup}, {"min_lr", 1e-5}};
        Options by_steps(trainer_schema()), by_tokens(trainer_schema());
        by_steps.set_json(common);
        by_steps.set_i64("steps", updates);
        by_tokens.set_json(common);
        by_tokens.set_i64("tokens", updates * 512);
        const LearningRate counted = learning_rate_of(by_steps),
                           budget = learning_rate_of(by_tokens);
        const double first = token_share(by_tokens, 512);
        for (int64_t update = 0; update < updates; ++update) {
          const double clock = token_share(by_tokens, update * 512);
          EXPECT_NEAR(budget.factor(update, clock, first), counted.factor(update), 1e-12) << update;
        }
      }
    }
  }
}

// The first update by minutes is not lost, though the number of updates is not known.
TEST(LearningRate, TheFirstUpdateOfABudgetCounts) {
  Options options(trainer_schema());
  options.set_json({{"schedule", "cosine"}, {"minutes", 3.0}});
  EXPECT_GE(learning_rate_of(options).factor(0, 0.0), 0.01);
  EXPECT_LT(learning_rate_of(options).factor(0, 0.0), 0.1);
}

} // namespace
} // namespace dllm::train
