#include "cli/pictures/pictures.h"

#include "traces.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dllm::cli {
namespace {

// The data a page holds, as its browser will read it.
nlohmann::json data_of(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"trace\">";
  const size_t begin = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Replay, HoldsTheTrace) {
  const auto data = data_of(replay_html(parse_trace(kLines, "t")));
  EXPECT_EQ(data["model"], "runs/x");
  EXPECT_EQ(data["tokens"]["4"], " 猫");
  const auto& steps = data["slots"][0]["steps"];
  ASSERT_EQ(steps.size(), 3u);
  // Only what changed: position, id, state, thousandths.
  EXPECT_EQ(steps[1]["changes"], (nlohmann::json{2, 3, 1, 250}));
  EXPECT_EQ(steps[2]["changes"], (nlohmann::json{2, 3, 2, 750, 3, 4, 2, 1000}));
  EXPECT_EQ(steps[0]["length"], 5);
}

TEST(Replay, TextCannotLeaveTheScript) {
  const std::string evil = "</script><script>alert(1)</script><!--\"'&\u2028";
  const std::string plain = replay_html(parse_trace(kLines, "t"));
  const std::string step = R"({"slot":0,"step":1,"ids":[1],"states":[2],"confidence":[1]})";
  const std::string page = replay_html(parse_trace(trace_header(evil, 5, {{1, evil}}) + step, "t"));
  EXPECT_EQ(count_of(page, "</script>"), count_of(plain, "</script>"));
  EXPECT_EQ(count_of(page, "<!--"), 0u);
  EXPECT_EQ(data_of(page)["tokens"]["1"], evil);
  EXPECT_EQ(data_of(page)["model"], evil);
}

TEST(Replay, NeedsNoNetwork) {
  const std::string page = replay_html(parse_trace(kLines, "t"));
  for (const char* word : {"http:", "https:", "src=", "@import", "url("})
    EXPECT_EQ(count_of(page, word), 0u) << word;
}

TEST(Replay, ThinsALongTraceAndKeepsTheLastStep) {
  const auto data = data_of(replay_html(long_trace(100, 10), 200));
  const auto& slot = data["slots"][0];
  EXPECT_EQ(slot["recorded"], 100);
  EXPECT_LE(slot["steps"].size(), 20u);
  EXPECT_EQ(slot["steps"].back()["step"], 100);
  EXPECT_LT(replay_html(long_trace(100, 10), 200).size(), replay_html(long_trace(100, 10)).size());
}

TEST(Replay, ThinnedStepsAreEvenAndEndAtTheLast) {
  EXPECT_EQ(thinned(5, 9), (std::vector<size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(thinned(7, 3), (std::vector<size_t>{0, 3, 6}));
  EXPECT_EQ(thinned(8, 1), (std::vector<size_t>{7}));
  EXPECT_TRUE(thinned(0, 3).empty());
}

} // namespace
} // namespace dllm::cli
