#include "noise/schedules/schedule.h"

#include "base/error.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace dllm::noise {
namespace {

constexpr double kTight = 1e-6;

ScheduleRef with(const std::string& name,
                 std::initializer_list<std::pair<const char*, double>> numbers,
                 const char* compat = "none") {
  Options options(schedule_schema(name));
  for (const auto& [key, value] : numbers) {
    if (std::string_view(key) == "steps")
      options.set_i64(key, static_cast<int64_t>(value));
    else
      options.set_f64(key, value);
  }
  options.set_str("compat", compat);
  return make_schedule(name, options);
}

// Options that schedules share reach every schedule, a new one too.
TEST(Schedule, TakesEverySharedOption) {
  Options shared(schedule_schema(""));
  Json given = Json::object();
  for (const OptionSpec& spec : shared.schema().specs()) {
    if (!spec.choices.empty())
      given[spec.key] = spec.choices.back();
    else
      given[spec.key] = 0.25 * spec.max;
  }
  shared.set_json(given);
  for (const std::string& name : schedule_names()) {
    const Json described = make_schedule(name, shared)->describe();
    for (const auto& [key, value] : given.items()) EXPECT_EQ(described.at(key), value) << name;
  }
}

// Every dalpha is the derivative of its alpha.
TEST(Schedule, DerivativesMatchFiniteDifferences) {
  for (const std::string& name : schedule_names()) {
    if (name.starts_with("nano_")) continue; // discrete times
    const ScheduleRef schedule = make_schedule(name);
    for (double t : {0.05, 0.3, 0.5, 0.77, 0.95}) {
      const double h = 1e-6;
      const double slope = (schedule->alpha(t + h) - schedule->alpha(t - h)) / (2 * h);
      EXPECT_NEAR(schedule->dalpha(t), slope, 1e-6 * std::max(1.0, std::abs(slope)))
          << name << " at " << t;
    }
  }
}

TEST(Schedule, EndsAndMonotony) {
  for (const char* name : {"linear", "cosine", "sqrt"}) {
    const ScheduleRef schedule = make_schedule(name);
    EXPECT_NEAR(schedule->alpha(0), 1.0, 1e-12) << name;
    EXPECT_NEAR(schedule->alpha(1), 0.0, 1e-12) << name;
    for (int i = 0; i < 100; ++i)
      EXPECT_GT(schedule->alpha(i / 100.0), schedule->alpha((i + 1) / 100.0)) << name;
  }
}

// Values by hand at t = .3: log-linear with eps 1e-3 and Duo's cosine (derivatives
// there are over t' = .999 t).
TEST(Schedule, ContinuousFacts) {
  const ScheduleRef linear = with("linear", {{"eps", 1e-3}});
  EXPECT_NEAR(linear->alpha(0.3), 0.7003, kTight);
  EXPECT_NEAR(linear->weight(0.3), 1 / 0.3, kTight);
  const ScheduleRef cosine = with("cosine", {{"eps", 1e-3}});
  EXPECT_NEAR(cosine->alpha(0.3), 0.54642943, kTight);
  EXPECT_NEAR(cosine->dalpha(0.3), -1.39992567 * .999, kTight);
  EXPECT_NEAR(cosine->weight(0.3), 3.08645613 * .999, kTight);
  EXPECT_NEAR(make_schedule("sqrt")->weight(0.3), 1 / 0.6, kTight);
}

// Worked by hand: tables of T = 1000 and T = 4 with eps 1e-4.
TEST(Schedule, NanoTables) {
  const ScheduleRef cosine = make_schedule("nano_cosine");
  ASSERT_EQ(cosine->steps(), 1000);
  const std::pair<int, double> expected[] = {{1, .9999},       {10, .99936872},  {100, .97209274},
                                             {500, .49384359}, {990, .00024286}, {1000, .0001}};
  for (const auto& [t, alpha] : expected) EXPECT_NEAR(cosine->alpha(t / 1000.0), alpha, 1e-8) << t;
  EXPECT_NEAR(cosine->weight(1 / 1000.0), 9999, 1e-3);
  EXPECT_NEAR(cosine->weight(0.5), .9756739, 1e-7);
  const ScheduleRef linear = make_schedule("nano_linear");
  EXPECT_DOUBLE_EQ(linear->alpha(0), 1.0);
  EXPECT_NEAR(linear->weight(1 / 1000.0), 999.1, 1e-1);
  EXPECT_NEAR(make_schedule("nano_sqrt")->weight(1 / 1000.0), 29.15113, 1e-5);
  const double four[] = {.9999, .84701216, .49384359, .1442721, .0001};
  for (int t = 0; t <= 4; ++t)
    EXPECT_NEAR(with("nano_cosine", {{"steps", 4}})->alpha(t / 4.0), four[t], 1e-8);
  // p(unmask) from t to t - 1 is 1 - reverse_mask_prob.
  EXPECT_NEAR(1 - cosine->reverse_mask_prob(.499, .5), .003079045, 1e-9);
  EXPECT_NEAR(1 - linear->reverse_mask_prob(.001, .002), .5, 1e-9);
}

// dllm-jax, schedulers: both guards under dllm-jax, the weight's alone under dllm, none by default.
TEST(Schedule, CompatQuirks) {
  const double t = 1e-3, s = 5e-4;
  EXPECT_DOUBLE_EQ(with("linear", {})->weight(t), 1 / (1 - (1 - t)));
  EXPECT_NEAR(with("linear", {}, "dllm-jax")->weight(t), 1 / (t + 1e-6), 1e-6);
  EXPECT_NEAR(with("linear", {}, "dllm")->weight(t), 1 / (t + 1e-6), 1e-6);
  EXPECT_NEAR(with("linear", {}, "dllm")->reverse_mask_prob(s, t), .5, 1e-9);
  EXPECT_NEAR(with("linear", {}, "dllm-jax")->reverse_mask_prob(s, t), s / (t + 1e-6), 1e-9);
}

TEST(Schedule, KappaIsTheOtherWayRound) {
  const ScheduleRef cubic = with("kappa_cubic", {{"a", -1}, {"b", 0}});
  const ScheduleRef linear = make_schedule("kappa_linear");
  for (double t : {0.0, 0.25, 0.5, 1.0}) {
    EXPECT_NEAR(1 - linear->alpha(t), t, 1e-12);
    EXPECT_NEAR(cubic->alpha(t), linear->alpha(t), 1e-12);
  }
  EXPECT_NEAR(linear->weight(0.5), 2.0, 1e-12);
}

TEST(Schedule, UnknownNameSuggestsTheNearest) {
  try {
    make_schedule("cosin");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::not_found);
    EXPECT_NE(error.hint().find("cosine"), std::string::npos) << error.hint();
  }
}

TEST(Schedule, GenericOptionsReachASchedule) {
  Options options(schedule_schema(""));
  options.set_f64("eps", 0.1);
  EXPECT_NEAR(make_schedule("linear", options)->alpha(1.0), 0.1, 1e-12);
  // What was not set keeps the schedule's own default.
  EXPECT_NEAR(make_schedule("nano_linear", Options(schedule_schema("")))->alpha(1.0), 1e-4, 1e-12);
}

TEST(TableSchedule, LinearTableEqualsLinear) {
  std::vector<double> t, alpha;
  for (int i = 0; i <= 10; ++i) {
    t.push_back(i / 10.0);
    alpha.push_back(1 - i / 10.0);
  }
  const ScheduleRef table = table_schedule(t, alpha, {}, {});
  const ScheduleRef linear = make_schedule("linear");
  for (double x : {0.0, 0.05, 0.31, 0.999, 1.0}) {
    EXPECT_NEAR(table->alpha(x), linear->alpha(x), 1e-12);
    EXPECT_NEAR(table->dalpha(x), -1.0, 1e-12);
  }
  EXPECT_NEAR(table->weight(0.25), 4.0, 1e-9);
}

TEST(TableSchedule, GivenColumnsAreUsed) {
  const ScheduleRef table =
      table_schedule(std::vector<double>{0, 1}, std::vector<double>{1, 0},
                     std::vector<double>{-2, -4}, std::vector<double>{10, 30});
  EXPECT_NEAR(table->dalpha(0.5), -3.0, 1e-12);
  EXPECT_NEAR(table->weight(0.75), 25.0, 1e-12);
}

TEST(TableSchedule, NamesTheFirstBadPoint) {
  const auto message = [](std::vector<double> t, std::vector<double> alpha) -> std::string {
    try {
      table_schedule(t, alpha, {}, {});
    } catch (const Error& error) {
      return error.text();
    }
    return "no error";
  };
  EXPECT_NE(message({0, 0.5, 0.5}, {1, 0.5, 0}).find("point 2: t 0.5"), std::string::npos);
  EXPECT_NE(message({0, 0.5, 1}, {1, 0.2, 0.3}).find("point 2: alpha 0.3"), std::string::npos);
  EXPECT_NE(message({0, 2}, {1, 0}).find("point 1: t 2"), std::string::npos);
  EXPECT_NE(message({0}, {1}).find("2 points"), std::string::npos);
  EXPECT_NE(message({0, 1}, {1}).find("alpha has 1 values"), std::string::npos);
}

} // namespace
} // namespace dllm::noise
