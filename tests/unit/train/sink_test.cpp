#include "train/console_sink.h"
#include "train/options.h"
#include "train/sink.h"

#include "base/error.h"
#include "base/files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <sstream>

namespace dllm::train {
namespace {

Event step(int64_t number) {
  Event event(EventKind::train_step);
  event.set("step", number)
      .set("loss", 2.5)
      .set("lr", 3e-4)
      .set("tokens_per_second", 12345.0)
      .set("mfu", 0.41);
  return event;
}

TEST(ConsoleSink, TheLineTellsWhatMatters) {
  const std::string line = progress_line(step(25), {25, 100, 30.0, 25}, 120);
  for (const char* part : {"step 25", "[####............]", "25 %", "loss 2.5000",
                           "lr 3.00e-04", "12.3k tok/s", "mfu 41 %", "eta 1:30"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " in: " << line;
  }
}

// At any width nothing wraps, and the step is there; the loss stays longer than the rest.
TEST(ConsoleSink, TheLineFitsTheTerminal) {
  for (int columns = 1; columns <= 120; ++columns) {
    const std::string line = progress_line(step(25), {25, 100, 30.0, 25}, columns);
    EXPECT_LE(line.size(), static_cast<size_t>(columns));
    EXPECT_EQ(line.find("step 25"), columns >= 7 ? 0 : std::string::npos) << line;
    EXPECT_EQ(line.find("loss 2.5000") != std::string::npos, columns >= 20) << line;
    EXPECT_EQ(line.find("eta 1:30") != std::string::npos, columns >= 36) << line;
  }
}

TEST(ConsoleSink, AResumedRunCountsTheStepsBefore) {
  // 930 of 1200 were there; 135 more took 27 s, 135 are left.
  const std::string line = progress_line(step(1065), {1065, 1200, 27.0, 135}, 0);
  EXPECT_NE(line.find("88 %"), std::string::npos) << line;
  EXPECT_NE(line.find("eta 0:27"), std::string::npos) << line;
}

TEST(ConsoleSink, MinutesBoundPercentageAndEta) {
  const std::string both = progress_line(step(10), {10, 1000, 90.0, 10, 180.0}, 0);
  EXPECT_NE(both.find("50 %"), std::string::npos) << both;
  EXPECT_NE(both.find("eta 1:30"), std::string::npos) << both;
  const std::string clock = progress_line(step(10), {10, 0, 45.0, 10, 180.0}, 0);
  EXPECT_NE(clock.find("25 %"), std::string::npos) << clock;
  const std::string endless = progress_line(step(10), {10, 0, 45.0, 10}, 0);
  EXPECT_EQ(endless.find('%'), std::string::npos) << endless;
}

TEST(JsonlSink, RewindDropsUndoneStepsAndACutLine) {
  const std::string path = testing::TempDir() + "/sink_rewind.jsonl";
  write_file_atomic(path, "{\"note\": 1}\n{\"event\":\"train_step\",\"step\":2}\n"
                          "{\"event\":\"eval\",\"step\":3}\n{\"event\":\"train_step\",\"step\":4}\n"
                          "{\"event\":\"train_st");
  const auto sink = make_sink("jsonl", path, Options(sink_schema()));
  sink->rewind(3);
  sink->write(step(4), {});
  const std::string text = read_text(path);
  EXPECT_TRUE(text.starts_with("{\"note\": 1}\n{\"event\":\"train_step\",\"step\":2}\n"
                               "{\"event\":\"eval\",\"step\":3}\n{"))
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  remove_all(path);
}

TEST(JsonlSink, AppendsOneObjectPerLine) {
  const std::string path = testing::TempDir() + "/sink_test.jsonl";
  remove_all(path);
  Options options(sink_schema());
  for (int run = 0; run < 2; ++run) {
    const auto sink = make_sink("jsonl", path, options);
    for (int i = 0; i < 3; ++i) sink->write(step(i), {});
  }
  std::istringstream lines(read_text(path));
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    EXPECT_EQ(parse_json(line, "line").at("step"), count % 3);
    ++count;
  }
  EXPECT_EQ(count, 6);
  options.set_i64("append", 0);
  options.set_i64("every", 2);
  const auto sink = make_sink("jsonl", path, options);
  for (int i = 0; i < 3; ++i) sink->write(step(i), {});
  const std::string text = read_text(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  remove_all(path);
}

TEST(Sink, UnknownKindAndBadPathAreErrors) {
  const Options options(sink_schema());
  EXPECT_THROW(make_sink("tensorboard", "", options), Error);
  EXPECT_THROW(make_sink("jsonl", "", options), Error);
  EXPECT_THROW(make_sink("jsonl", "/nowhere/at/all.jsonl", options), Error);
}

} // namespace
} // namespace dllm::train
