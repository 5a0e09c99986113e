#include "cli/pictures/report.h"

#include "traces.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
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

// Numbers whose names begin with the same word share a panel; others have one each.
TEST(Report, UnknownNumbersHaveAPanelEach) {
  const RunRecord record = record_of(
      R"({"event":"train_step","step":1,"loss":2,"mfu":0.1,"run_seconds":3,"tokens":9,"own<":1,)"
      R"("held_out_loss":3,"pair_a":1,"pair_b":2,"diffusion":0.5,"token_nll":4,)"
      R"("word":"x","flag":true,"gone":null})"
      "\n");
  EXPECT_EQ(record.metrics.size(), 5u); // not those of every step, no texts
  EXPECT_EQ(record.bad_numbers, 1);     // gone
  EXPECT_EQ(record.tokens, 9);
  std::map<std::string, std::string> drawn;
  for (const Picture& picture : report_pictures(record)) drawn[picture.name] = picture.svg;
  ASSERT_TRUE(drawn.contains("metric_own_") && drawn.contains("metric_pair"));
  EXPECT_EQ(drawn.at("metric_own_").find("own<"), std::string::npos); // it is text
  EXPECT_NE(drawn.at("metric_pair").find("pair_a"), std::string::npos);
  EXPECT_NE(drawn.at("metric_pair").find("pair_b"), std::string::npos);
  ASSERT_TRUE(drawn.contains("loss_parts"));
  EXPECT_NE(drawn.at("loss_parts").find("token_nll"), std::string::npos);
  EXPECT_NE(drawn.at("loss_parts").find("diffusion"), std::string::npos);
}

TEST(Report, NamesOfNumbersAreBounded) {
  std::string line = "{\"event\":\"train_step\",\"step\":1,\"loss\":1";
  for (int i = 0; i < 500; ++i) {
    const std::string name = std::to_string(i);
    line += ",\"n" + name + "\":1,\"p" + name + "\":[1]";
  }
  const RunRecord record = record_of(line + "}\n");
  EXPECT_EQ(record.metrics.size(), kMostMetrics);
  EXPECT_EQ(record.profiles.size(), kMostMetrics);
}

TEST(Report, AnArrayIsDrawnOverZeroToOne) {
  const auto line = [](int step, const std::string& arrays) {
    return "{\"event\":\"train_step\",\"step\":" + std::to_string(step) + ",\"loss\":1," + arrays +
           "}\n";
  };
  RunRecord record = record_of(
      line(20, R"("time_losses":[1,null,3,4],"time_rows":[1,0,3,4],"time_shares":[1,1,1,1])") +
      line(40, R"("time_losses":[1,2,"x",4],"time_rows":[2,2,2,2],"time_shares":[1,1,1,1])") +
      line(30, R"("time_losses":[5,6,7,8],"time_rows":[0,0,6,2],"time_shares":[4,2,1,1])"));
  EXPECT_EQ(record.bad_numbers, 1);
  const std::vector<Profile>& losses = record.profiles.at("time_losses");
  ASSERT_EQ(losses.size(), 2u); // step 40 was undone
  EXPECT_TRUE(std::isnan(losses[0].values[1]));
  std::map<std::string, std::string> drawn;
  for (const Picture& picture : report_pictures(record)) drawn[picture.name] = picture.svg;
  EXPECT_EQ(count_of(drawn.at("metric_time_losses"), "<circle"), 3u + 4u); // null is a gap
  const std::string& histogram = drawn.at("metric_time_histogram");
  EXPECT_EQ(count_of(histogram, "class=\"bar fill-a\""), 4u);
  EXPECT_EQ(count_of(histogram, "<polyline"), 1u);
  EXPECT_FALSE(drawn.contains("metric_time_rows"));
  // Four bins of 8 rows: 6 of them in the third are 3 times as many as even draws.
  const std::string page = report_html(record);
  EXPECT_NE(page.find("<tr><td>0.625</td><td>3</td></tr>"), std::string::npos);
  EXPECT_EQ(page.find("nan"), std::string::npos);
}

std::string part_row(const std::string& name, const std::string& more) {
  return "{\"name\":\"" + name + "\",\"kind\":\"network\",\"stored\":\"value\"" + more + "}";
}

TEST(Report, TheTowerHasABoxForEachPartAndAnArrowForEachReading) {
  RunRecord record = record_of(step_line(1, "2"));
  read_parts("{\"parts\":[" + part_row("base", "") + "]}", &record);
  EXPECT_EQ(tower_svg(record, true), ""); // one part is the model
  read_parts("{\"parts\":[" +
                 part_row("base", R"(,"family":"llama","layers":3,"hidden":64,"parameters":1000)") +
                 "," + part_row("encoder", R"(,"layers":2,"trained":true,"reads":["base"])") + "," +
                 part_row("<b>", R"(,"reads":["encoder","base","other"],"latents":8)") + ",7]}",
             &record);
  ASSERT_EQ(record.parts.size(), 3u);
  const std::string drawn = tower_svg(record, true);
  EXPECT_EQ(count_of(drawn, "<g>"), 3u);
  EXPECT_EQ(count_of(drawn, "class=\"flow\""), 3u);
  EXPECT_NE(drawn.find("llama, 3 layers of 64"), std::string::npos);
  EXPECT_NE(drawn.find("makes 8 vectors"), std::string::npos);
  EXPECT_EQ(count_of(drawn, "<b>"), 0u);
  EXPECT_EQ(count_of(report_html(record), "id=\"tower\""), 1u);
}

// A circle of parts ends, and wrong descriptions change nothing.
TEST(Report, TheTowerSurvivesAnyDescription) {
  RunRecord record = record_of(step_line(1, "2"));
  record.layers = 4; // of run.json
  read_parts(R"({"model":{"layers":3,"hidden":"x"}})", &record);
  EXPECT_EQ(record.layers, 3);
  for (const char* text :
       {"", "[]", "{\"model\":7}", "{\"parts\":7}", "{\"parts\":[7,null,\"x\",[]]}"}) {
    read_parts(text, &record);
    EXPECT_TRUE(record.parts.empty()) << text;
  }
  std::string many = part_row("a", R"(,"reads":["b"],"layers":-3,"hidden":"x","heads":[1,{}])") +
                     "," + part_row("b", R"(,"reads":["a","b"],"layers":1000000)");
  for (int i = 0; i < 300; ++i) many += "," + part_row("c" + std::to_string(i), "");
  read_parts("{\"parts\":[" + many + "]}", &record);
  EXPECT_EQ(record.parts.size(), kMostParts);
  EXPECT_EQ(count_of(tower_svg(record, false), "<g>"), kMostParts);
}

} // namespace
} // namespace dllm::cli
