#include "train/console_sink.h"
#include "train/options.h"
#include "train/sink.h"

#include "base/error.h"
#include "base/files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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
  const std::string line = progress_line(step(25), {25, 100, 30.0}, 20);
  for (const char* part : {"step 25", "[#####...............]", "25 %", "loss 2.5000",
                           "lr 3.00e-04", "12.3k tok/s", "mfu 41 %", "eta 1:30"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " in: " << line;
  }
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
