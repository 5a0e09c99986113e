#include "cli/pictures/report.h"

#include "traces.h"

#include <gtest/gtest.h>

#include <sstream>

namespace dllm::cli {
namespace {

RunRecord record_of(const std::string& metrics, const std::string& examples = "") {
  RunRecord record;
  std::istringstream first(metrics), second(examples);
  read_metrics(first, &record);
  read_examples(second, &record);
  return record;
}

std::string step_line(int64_t step, const std::string& loss) {
  return "{\"event\":\"train_step\",\"step\":" + std::to_string(step) + ",\"loss\":" + loss + "}\n";
}

TEST(Report, KeepsMeansOfALongCurve) {
  Curve curve;
  constexpr int64_t kSteps = 300'000;
  for (int64_t step = 1; step <= kSteps; ++step) curve.add(step, static_cast<double>(step));
  EXPECT_LE(curve.points().size(), size_t{1} << 16);
  int64_t count = 0;
  for (const Bucket& one : curve.points()) {
    count += one.count;
    EXPECT_DOUBLE_EQ(one.mean, (one.least + one.most) / 2);
  }
  EXPECT_EQ(count, kSteps);
  EXPECT_EQ(curve.points().back().step, kSteps);
  const std::vector<Bucket> few = curve.thinned(300);
  EXPECT_LE(few.size(), 300u);
  EXPECT_EQ(few.back().step, kSteps);
}

TEST(Report, AnEarlierStepReplacesThoseAfterIt) {
  Curve curve;
  for (const int64_t step : {1, 2, 3, 4}) curve.add(step, 1);
  curve.add(3, 5);
  ASSERT_EQ(curve.points().size(), 3u);
  EXPECT_EQ(curve.points().back().step, 3);
  EXPECT_EQ(curve.points().back().mean, 5);
}

TEST(Report, CountsWhatItCannotRead) {
  const RunRecord record = record_of(step_line(1, "2") + "oops\n[]\n" + step_line(2, "null") +
                                     step_line(3, "1e300") + "{\"event\":\"train_");
  EXPECT_EQ(record.bad_lines, 2);
  EXPECT_EQ(record.bad_numbers, 2);
  EXPECT_TRUE(record.cut);
  EXPECT_EQ(record.loss.points().size(), 1u);
  EXPECT_EQ(record.steps, 3);
}

TEST(Report, ALineThatIsTooLongIsReadOver) {
  const RunRecord record = record_of(std::string(kMostLine + 9, ' ') + "\n" +
                                     std::string(kMostLine, '[') + "1\n" + step_line(1, "2"));
  EXPECT_EQ(record.bad_lines, 1);
  EXPECT_EQ(record.loss.points().size(), 1u);
}

TEST(Report, ExamplesAreThinned) {
  std::string lines;
  for (int i = 1; i <= 5000; ++i)
    lines += "{\"step\":" + std::to_string(i) + ",\"sample\":\"a\"}\n";
  const RunRecord record = record_of(step_line(1, "2"), lines);
  EXPECT_LE(record.examples.size(), kMostExamples);
  EXPECT_EQ(record.examples.back().step, 5000);
}

TEST(Report, APictureHasNoTextOfTheRunAsMarkup) {
  const std::string evil = R"(</text><script>\")";
  const std::string example =
      R"({"step":1,"share":[0.5],"loss":[1],"right":[1],"strips":[{"texts":[")" + evil +
      R"("],"guesses":[")" + evil + R"("],"states":[1]}],"sample":")" + evil + "\"}\n";
  const RunRecord record = record_of(step_line(1, "2"), example);
  ASSERT_EQ(record.examples.size(), 1u);
  for (const Picture& picture : report_pictures(record))
    EXPECT_EQ(count_of(picture.svg, "<script"), 0u) << picture.name;
  EXPECT_EQ(count_of(report_html(record), "<script"), 0u);
}

TEST(Report, SomeOfManyHasTheFirstAndTheLast) {
  EXPECT_EQ(some_of(3, 5), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(some_of(101, 3), (std::vector<size_t>{0, 50, 100}));
  EXPECT_EQ(some_of(7, 1), (std::vector<size_t>{6}));
  EXPECT_TRUE(some_of(0, 5).empty());
}

TEST(Report, NumbersAreShort) {
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(9999), "9999");
  EXPECT_EQ(short_number(12345), "12.35k");
  EXPECT_EQ(short_number(2.5e6), "2.5M");
  EXPECT_EQ(short_number(0.0003), "0.0003");
}

} // namespace
} // namespace dllm::cli
