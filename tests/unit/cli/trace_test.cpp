#include "traces.h"

#include "cli/command.h" // Failure

#include <gtest/gtest.h>

namespace dllm::cli {
namespace {

std::string message_of(const std::string& text) {
  try {
    parse_trace(text, "t.jsonl");
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "no failure";
}

TEST(Trace, ReadsHeaderAndSteps) {
  const Trace trace = parse_trace(kLines, "t");
  EXPECT_EQ(trace.model, "runs/x");
  EXPECT_EQ(trace.mask_id, 9);
  ASSERT_EQ(trace.slots.size(), 1u);
  ASSERT_EQ(trace.slots[0].steps.size(), 3u);
  EXPECT_EQ(trace.slots[0].positions(), 5u);
  const TraceStep& last = trace.slots[0].steps.back();
  EXPECT_EQ(last.step, 3);
  EXPECT_EQ(last.open, 1);
  EXPECT_EQ(last.ids, (std::vector<int32_t>{1, 2, 3, 4, 9}));
  EXPECT_EQ(last.decided, (std::vector<int64_t>{2, 3}));
  EXPECT_FLOAT_EQ(last.confidence[2], 0.75f);
}

TEST(Trace, FallsBackToIdsWithoutHeader) {
  const std::string lines(kLines);
  const Trace trace = parse_trace(lines.substr(lines.find('\n') + 1), "t");
  EXPECT_EQ(trace.text_of(3), "\u27e8"
                              "3\u27e9");
  EXPECT_EQ(parse_trace(lines, "t").text_of(4), " 猫");
}

TEST(Trace, KeepsSlotsApartAndSorted) {
  const std::string step = R"(,"step":1,"ids":[1],"states":[2],"confidence":[1]})";
  const Trace trace =
      parse_trace("{\"slot\":4" + step + "\n\n{\"slot\":1" + step + "\r\n{\"slot\":4" + step, "t");
  ASSERT_EQ(trace.slots.size(), 2u);
  EXPECT_EQ(trace.slots[0].number, 1);
  EXPECT_EQ(trace.slots[1].steps.size(), 2u);
}

TEST(Trace, HeaderRoundTrips) {
  const std::map<int32_t, std::string> tokens = {{0, "\"\\\n"}, {7, "\xff"}};
  const std::string step = R"({"slot":0,"step":1,"ids":[1],"states":[2],"confidence":[1]})";
  const std::string header = trace_header("a\"b", 5, tokens);
  EXPECT_EQ(count_of(header, "\n"), 1u);
  const Trace trace = parse_trace(header + step, "t");
  EXPECT_EQ(trace.model, "a\"b");
  EXPECT_EQ(trace.mask_id, 5);
  EXPECT_EQ(trace.text_of(0), "\"\\\n");
  EXPECT_EQ(trace.text_of(7), "\uFFFD");
}

TEST(Trace, PutsCharactersOfSeveralTokensTogether) {
  const std::string header =
      trace_header("", 9, {{1, "\uFFFD"}, {2, "\uFFFD"}, {3, "a"}}, {{"1 2", "\u732b"}});
  const std::string step =
      R"({"slot":0,"step":1,"ids":[3,1,2,1,9],"states":[3,2,2,2,0],"confidence":[1,1,1,1,0]})";
  const Trace trace = parse_trace(header + step, "t");
  EXPECT_EQ(trace.texts_of(trace.slots[0].steps[0]),
            (std::vector<std::string>{"a", "\u732b", "", "\uFFFD", ""}));
}

TEST(Trace, NullConfidenceIsZero) {
  const Trace trace =
      parse_trace(R"({"slot":0,"step":1,"ids":[1],"states":[2],"confidence":[null]})", "t");
  EXPECT_EQ(trace.slots[0].steps[0].confidence[0], 0.0f);
}

// A writer that was killed leaves half a line.
TEST(Trace, ALastLineThatWasCutIsLeftOut) {
  const std::string good = R"({"slot":0,"step":1,"ids":[1],"states":[2],"confidence":[1]})";
  const Trace cut = parse_trace(good + "\n" + good.substr(0, 30), "t");
  EXPECT_TRUE(cut.cut);
  EXPECT_EQ(cut.slots[0].steps.size(), 1u);
  EXPECT_FALSE(parse_trace(good + "\n" + good, "t").cut);
  EXPECT_NE(message_of(good.substr(0, 30)).find("is not a JSON object"), std::string::npos);
}

// Hostile lines: each failure names the file, the line and the fault.
TEST(Trace, RefusesWhatIsNoTrace) {
  const std::string good = R"({"slot":0,"step":1,"ids":[1],"states":[2],"confidence":[1]})";
  const std::pair<std::string, std::string> cases[] = {
      {"{\"slot\":0", "is not a JSON object"},
      {"[1,2]", "is not a JSON object"},
      {"{\"a\":1}", "neither a step"},
      {R"({"slot":0,"ids":[1],"states":[2],"confidence":[1]})", "has no whole number \"step\""},
      {R"({"slot":-1,"step":1,"ids":[1],"states":[2],"confidence":[1]})", "has a bad \"slot\": -1"},
      {R"({"slot":18446744073709551615,"step":1,"ids":[1],"states":[2],"confidence":[1]})",
       "has a bad \"slot\""},
      {R"({"slot":0,"step":1,"ids":7,"states":[2],"confidence":[1]})", "has no list \"ids\""},
      {R"({"slot":0,"step":1,"ids":[1],"states":[4],"confidence":[1]})",
       "has 4 in \"states\", not a whole number from 0 to 3"},
      {R"({"slot":0,"step":1,"ids":[-1],"states":[2],"confidence":[1]})", "has -1 in \"ids\""},
      {R"({"slot":0,"step":1,"ids":[1],"states":[2],"confidence":["x"]})",
       "has \"x\" in \"confidence\""},
      {R"({"slot":0,"step":1,"ids":[1],"states":[2],"confidence":[2.5]})",
       "has 2.5 in \"confidence\""},
      {R"({"slot":0,"step":1,"ids":[1,2],"states":[2],"confidence":[1]})",
       "has 2 ids, 1 states and 1 confidences"},
      {R"({"slot":0,"step":1,"ids":[1],"states":[2],"confidence":[1],"decided":[1]})",
       "has 1 in \"decided\""},
      {R"({"tokens":{"x":"y"}})", "has a token \"x\""},
      {R"({"tokens":{"99999999999":"y"}})", "has a token"},
      {R"({"tokens":[1]})", "\"tokens\" that are not an object"},
      {R"({"tokens":{},"joined":{"1 x":"y"}})", "\"joined\" entry"},
      {R"({"tokens":{},"joined":7})", "\"joined\" that is not an object"}};
  for (const auto& [line, complaint] : cases) {
    const std::string message = message_of(good + "\n" + line + "\n");
    EXPECT_EQ(message.rfind("t.jsonl:2: ", 0), 0u) << message;
    EXPECT_NE(message.find(complaint), std::string::npos) << message;
  }
}

TEST(Trace, RefusesAnEmptyFile) {
  EXPECT_EQ(message_of(""), "t.jsonl holds no step");
  EXPECT_EQ(message_of("{\"tokens\":{}}\n"), "t.jsonl holds no step");
}

TEST(Trace, DeepJsonIsAnErrorNotACrash) {
  EXPECT_NE(message_of(std::string(200000, '[')).find("t.jsonl:1:"), std::string::npos);
}

} // namespace
} // namespace dllm::cli
