#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dllm {
namespace {

class LogQueue : public ::testing::Test {
protected:
  void SetUp() override { drain(); }
  void TearDown() override {
    drain();
    log_config(LogLevel::info, LogSink::none);
  }
  static void drain() {
    while (log_next()) {
    }
  }
};

TEST_F(LogQueue, KeepsLinesAtOrAboveTheLevelInOrder) {
  log_config(LogLevel::info, LogSink::queue);
  log(LogLevel::debug, "hidden");
  log(LogLevel::info, "one {}", 1);
  log(LogLevel::error, "two");
  EXPECT_EQ(log_next()->second, "one 1");
  const auto second = log_next();
  EXPECT_EQ(second->first, LogLevel::error);
  EXPECT_EQ(second->second, "two");
  EXPECT_FALSE(log_next().has_value());
}

TEST_F(LogQueue, IsSilentByDefault) {
  log_config(LogLevel::debug, LogSink::none);
  EXPECT_FALSE(log_enabled(LogLevel::error));
  log(LogLevel::error, "lost");
  EXPECT_FALSE(log_next().has_value());
}

TEST_F(LogQueue, KeepsTheLastThousand) {
  log_config(LogLevel::debug, LogSink::queue);
  for (int i = 0; i < 1500; ++i) log(LogLevel::info, "{}", i);
  EXPECT_EQ(log_next()->second, "500");
  int rest = 0;
  while (log_next()) ++rest;
  EXPECT_EQ(rest, 999);
}

TEST_F(LogQueue, ManyThreadsLoseNothing) {
  log_config(LogLevel::debug, LogSink::queue);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i) log(LogLevel::info, "line {}", i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  int lines = 0;
  while (log_next()) ++lines;
  EXPECT_EQ(lines, 400);
}

TEST_F(LogQueue, AFunctionGetsTheLinesOneAtATime) {
  std::vector<std::pair<LogLevel, std::string>> seen;
  log_hook(LogLevel::warn, [&](LogLevel level, const std::string& line) {
    seen.emplace_back(level, line);
    log(LogLevel::error, "inside");              // dropped
    log_hook(LogLevel::warn, nullptr);           // does nothing
    log_config(LogLevel::debug, LogSink::queue); // does nothing
  });
  log(LogLevel::info, "below");
  log(LogLevel::warn, "one {}", 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 50; ++i) log(LogLevel::error, "more");
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(seen.size(), 201u);
  EXPECT_EQ(seen[0].first, LogLevel::warn);
  EXPECT_EQ(seen[0].second, "one 1");
  log_config(LogLevel::debug, LogSink::queue);
  log(LogLevel::error, "queued");
  EXPECT_EQ(seen.size(), 201u); // taken away
  EXPECT_EQ(log_next()->second, "queued");
  log_hook(LogLevel::debug, nullptr);
  EXPECT_FALSE(log_enabled(LogLevel::error));
}

} // namespace
} // namespace dllm
