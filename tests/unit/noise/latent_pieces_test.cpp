// The pieces of latent objectives that are functions of numbers: the weight that comes in late,
// running statistics, and times that follow the loss.

#include "noise/latent/adaptive_times.h"
#include "noise/latent/running_statistics.h"
#include "noise/latent/warm_up.h"
#include "noise/schedules/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace dllm::noise {
namespace {

// Values of the specification of dLLM-castlehill, section 17.8.
TEST(WarmUp, FollowsTheLogisticCurve) {
  const std::pair<int64_t, double> expected[] = {
      {0, 0.001}, {250, 0.0544304}, {400, 0.5679355}, {450, 0.8301019}, {500, 1}, {900, 1}};
  for (const auto& [update, weight] : expected)
    EXPECT_NEAR(warm_up(update, 500, 0.001), weight, 1e-7) << update;
  EXPECT_EQ(warm_up(0, 0, 0.001), 1);
}

TEST(Tangent, IsTheSquaredCosineOverTheSpread) {
  const double at[] = {0.1, 0.25, 0.5, 0.75}, tangent[] = {0.8158133, 0.3930577, 0.1, 0.0187070},
               power[] = {0.999, 0.984375, 0.875, 0.578125};
  const ScheduleRef schedule = make_schedule("tangent");
  Options options(schedule_schema("tangent"));
  options.set_str("compat", "open-dllm");
  const ScheduleRef published = make_schedule("tangent", options);
  for (size_t i = 0; i < std::size(at); ++i) {
    EXPECT_NEAR(schedule->alpha(at[i]), tangent[i], 1e-7) << at[i];
    EXPECT_NEAR(published->alpha(at[i]), power[i], 1e-12) << at[i];
    const double h = 1e-6;
    EXPECT_NEAR(published->dalpha(at[i]),
                (published->alpha(at[i] + h) - published->alpha(at[i] - h)) / (2 * h), 1e-6);
  }
  EXPECT_EQ(schedule->alpha(0), 1);
  EXPECT_NEAR(schedule->alpha(1), 0, 1e-30);
  EXPECT_EQ(published->alpha(1), 1e-8);
  options.set_str("compat", "none");
  options.set_f64("steepness", 1);
  EXPECT_NEAR(make_schedule("tangent", options)->alpha(0.5), 0.5, 1e-12); // cos^2
}

CenteredSums sums_of(std::initializer_list<double> numbers, double center) {
  CenteredSums made{0, 0, 0, center};
  for (const double x : numbers) {
    ++made.count;
    made.first += x - center;
    made.second += (x - center) * (x - center);
  }
  return made;
}

TEST(RunningStatistics, AreThoseOfAllNumbers) {
  RunningStatistics exact, published;
  exact = merged(exact, sums_of({0, 2}, exact.mean));
  EXPECT_EQ(exact.mean, 1);
  EXPECT_EQ(exact.variance, 1);
  exact = merged(exact, sums_of({10, 12}, exact.mean));
  published = merged(merged({}, sums_of({0, 2}, 0), true), sums_of({10, 12}, 0), true);
  for (const RunningStatistics& made : {exact, published}) {
    EXPECT_EQ(made.count, 4);
    EXPECT_EQ(made.mean, 6);
  }
  EXPECT_EQ(exact.variance, 26);
  EXPECT_EQ(published.variance, 1);
  EXPECT_EQ(merged(exact, {}).variance, 26); // an update without numbers
}

TEST(RunningStatistics, GrowBeyondTheDigitsOfAFloat) {
  RunningStatistics made{std::ldexp(1.0, 34) + 1, 1.0 / 3, 2.0 / 3};
  const RunningStatistics again = running_statistics(to_array(made));
  EXPECT_EQ(again.count, made.count);
  EXPECT_NEAR(again.mean, made.mean, 1e-15);
  EXPECT_NEAR(again.variance, made.variance, 1e-15);
}

TEST(AdaptiveTimes, SharesAreTheRisesOfTheLoss) {
  const double edges[] = {0, 0.1, 0.4, 0.5, 1}, wanted[] = {0.1, 0.3, 0.1, 0.5};
  const std::vector<double> shares = bin_shares(edges, 1e-6);
  for (size_t i = 0; i < std::size(wanted); ++i) EXPECT_NEAR(shares[i], wanted[i], 1e-9);
  const double falls[] = {1, 0.5, 0.6};
  EXPECT_NEAR(bin_shares(falls, 1e-6)[0], 1e-5, 1e-9); // the floor, of a rise of 0.1
  EXPECT_EQ(bin_of_time(1, 8), 7);
  EXPECT_EQ(bin_of_time(0.25, 8), 2);
}

AdaptiveTimes times_of(int64_t bins, int64_t interval, double uniform) {
  AdaptiveTimes::Settings settings;
  settings.bins = bins;
  settings.interval = interval;
  settings.uniform = uniform;
  return AdaptiveTimes(settings);
}

// The loss t^2 is best drawn by t = sqrt(u), so the share of a bin is the rise of t^2 over it.
TEST(AdaptiveTimes, DrawTimesWhereTheLossRises) {
  constexpr int64_t kBins = 20;
  const AdaptiveTimes times = times_of(kBins, 3, 0);
  StateArrays state;
  times.add_first(state);
  EXPECT_NEAR(times.time(state.at("time_shares"), 0.3), 0.3, 1e-6);
  std::vector<double> losses(kBins), rows(kBins, 1);
  for (size_t i = 0; i < losses.size(); ++i) losses[i] = std::pow((i + 0.5) / kBins, 2);
  for (int update = 0; update < 3; ++update) {
    EXPECT_NEAR(times.time(state.at("time_shares"), 0.7), 0.7, 1e-6); // not yet
    times.add_next(state, {losses, rows});
  }
  for (const double u : {0.0, 0.1, 0.5, 0.9})
    EXPECT_NEAR(times.time(state.at("time_shares"), u), std::sqrt(u), 0.03) << u;
  EXPECT_EQ(state.at("time_updates").as<float>()[0], 0);
  EXPECT_EQ(state.at("time_rows").as<float>()[4], 3);
}

TEST(AdaptiveTimes, WaitForEveryBinAndStayPartlyUniform) {
  const AdaptiveTimes times = times_of(4, 2, 0.2);
  StateArrays state;
  times.add_first(state);
  const std::vector<double> rows = {1, 2, 1, 0}, losses = {0, 2, 2, 0}, last = {0, 0, 0, 1},
                            high = {0, 0, 0, 3};
  for (int update = 0; update < 5; ++update) times.add_next(state, {losses, rows});
  const auto shares = [&](size_t i) { return state.at("time_shares").as<float>()[i]; };
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(shares(i), 0.25f);
  times.add_next(state, {high, last}); // middles 0, 1, 2, 3: every bin rises by 1
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(shares(i), 0.25f, 1e-6);
  EXPECT_EQ(state.at("time_updates").as<float>()[0], 0);
  EXPECT_EQ(state.at("time_losses").as<float>()[3], 3); // the first visit is not averaged with 0
  for (int update = 0; update < 2; ++update)
    times.add_next(state, {std::vector<double>{0, 0, 0, 3000}, last});
  // The averages are 0, 1, 2 and 8.991, so the edges rise by 1, 1, 3.9955 and 6.991.
  EXPECT_NEAR(shares(0), 0.2 / 4 + 0.8 / 12.9865, 1e-5);
  double sum = 0;
  for (size_t i = 0; i < 4; ++i) sum += shares(i);
  EXPECT_NEAR(sum, 1, 1e-6);
}

TEST(AdaptiveTimes, ProfilesJoinBins) {
  const AdaptiveTimes times = times_of(6, 100, 0);
  StateArrays state;
  EXPECT_TRUE(AdaptiveTimes::profiles(state, 3).empty());
  times.add_first(state);
  const std::vector<double> losses = {2, 12, 5, 0, 0, 0}, rows = {1, 3, 1, 0, 0, 0};
  times.add_next(state, {losses, rows});
  const auto made = AdaptiveTimes::profiles(state, 4); // six bins are three parts of two
  ASSERT_EQ(made.at("time_losses").size(), 3u);
  EXPECT_FLOAT_EQ(made.at("time_losses")[0], 3.5f); // the mean of four rows: 2, 4, 4, 4
  EXPECT_FLOAT_EQ(made.at("time_losses")[1], 5);
  EXPECT_TRUE(std::isnan(made.at("time_losses")[2])); // no row was there
  EXPECT_EQ(made.at("time_rows"), (std::vector<float>{4, 1, 0}));
  for (const float share : made.at("time_shares")) EXPECT_NEAR(share, 1.0 / 3, 1e-6);
  EXPECT_EQ(AdaptiveTimes::profiles(state, 100).at("time_rows").size(), 6u);
  EXPECT_EQ(AdaptiveTimes::profiles(state, 5).at("time_rows").size(), 3u);
}

} // namespace
} // namespace dllm::noise
