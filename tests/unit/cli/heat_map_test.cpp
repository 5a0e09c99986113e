#include "cli/pictures/pictures.h"

#include "traces.h"

#include <gtest/gtest.h>

namespace dllm::cli {
namespace {

TEST(HeatMap, HasACellPerPositionAndStep) {
  const Trace trace = parse_trace(kLines, "t");
  const std::string svg = heat_map_svg(trace, trace.slots[0]);
  // One more of each in the legend.
  EXPECT_EQ(count_of(svg, "<rect class=\"f\""), 3u + 1);
  EXPECT_EQ(count_of(svg, "<rect class=\"p\""), 1u + 1);
  EXPECT_EQ(count_of(svg, "<rect class=\"m\""), 3u + 2 + 1 + 1);
  EXPECT_EQ(count_of(svg, "<rect class=\"c5\""), 3u + 1);
  EXPECT_EQ(count_of(svg, "<rect class=\"c7\""), 1u + 1);
  EXPECT_EQ(count_of(svg, "<rect class=\"c9\""), 1u + 1);
  EXPECT_GE(count_of(svg, "max-width:100%"), 1u); // a narrow window shrinks it
  for (const char* word :
       {">step</text>", ">position", "confidence 0 to 1", "provisional", "<title>"}) {
    EXPECT_GE(count_of(svg, word), 1u) << word;
  }
}

TEST(HeatMap, EscapesTokensAndModel) {
  const std::string step = R"({"slot":0,"step":1,"ids":[1],"states":[2],"confidence":[1]})";
  const Trace trace = parse_trace(trace_header("a<b>&\"", 5, {{1, "</svg>\x01"}}) + step, "t");
  const std::string svg = heat_map_svg(trace, trace.slots[0]);
  EXPECT_EQ(count_of(svg, "</svg>"), 1u);
  EXPECT_EQ(count_of(svg, "&lt;/svg&gt;\u2401"), 1u);
  EXPECT_GE(count_of(svg, "a&lt;b&gt;&amp;&quot;"), 1u);
}

TEST(HeatMap, IsBoundedForALongTrace) {
  const Trace trace = long_trace(600, 2000);
  const std::string svg = heat_map_svg(trace, trace.slots[0]);
  EXPECT_LE(count_of(svg, "<rect"), kMostColumns * kMostRows + 20);
  EXPECT_LT(svg.size(), 8u << 20);
}

TEST(HeatMap, OnePositionIsEnough) {
  const Trace trace = long_trace(1, 1);
  EXPECT_GE(count_of(heat_map_svg(trace, trace.slots[0]), "<rect"), 2u);
}

TEST(HeatMap, ACanvasOfNothingIsAPictureToo) {
  const Trace trace =
      parse_trace(R"({"slot":0,"step":1,"ids":[],"states":[],"confidence":[]})", "t");
  EXPECT_EQ(count_of(heat_map_svg(trace, trace.slots[0]), "</svg>"), 1u);
}

} // namespace
} // namespace dllm::cli
