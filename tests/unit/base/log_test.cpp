#include "base/log.h"

#include <gtest/gtest.h>

#include <thread>
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

} // namespace
} // namespace dllm
