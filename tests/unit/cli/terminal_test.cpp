#include "cli/pictures/pictures.h"

#include "dllm/base.h"

#include <gtest/gtest.h>

namespace dllm::cli {
namespace {

TEST(Terminal, ColoursByState) {
  const std::vector<TokenCell> cells = {{"a", DLLM_FIXED, 1},
                                        {"b", DLLM_PROVISIONAL, .5f},
                                        {"c", DLLM_FINAL, .95f},
                                        {"d", DLLM_FINAL, .2f},
                                        {"", DLLM_MASKED, 0}};
  const Rows rows = draw_rows(cells, 40, true);
  ASSERT_EQ(rows.text.size(), 1u);
  EXPECT_EQ(
      rows.text[0],
      "\x1b[1ma\x1b[0m\x1b[33mb\x1b[0m\x1b[32mc\x1b[0m\x1b[36md\x1b[0m\x1b[2m\u2591\x1b[0m\x1b[0m");
}

TEST(Terminal, PlainHasNoEscapes) {
  const Rows rows = draw_rows({{"a\x1b[31m", DLLM_FINAL, 1}, {"", DLLM_MASKED, 0}}, 40, false);
  EXPECT_EQ(rows.text[0], "a\u241b[31m\u2591");
}

TEST(Terminal, WrapsWideTextByColumns) {
  const Rows rows = draw_rows({{"東京東京a", DLLM_FINAL, 1}}, 5, false);
  ASSERT_EQ(rows.text.size(), 2u);
  EXPECT_EQ(rows.text[0], "東京");
  EXPECT_EQ(rows.text[1], "東京a");
  for (const std::string& row : rows.text) EXPECT_LE(width_of(row), 5);
}

TEST(Terminal, CombiningCharactersTakeNoColumn) {
  EXPECT_EQ(width_of("e\u0301"), 1);
  const Rows rows = draw_rows({{"abe\u0301", DLLM_FINAL, 1}}, 3, false);
  ASSERT_EQ(rows.text.size(), 1u);
  EXPECT_EQ(rows.text[0], "abe\u0301");
}

TEST(Terminal, LineBreaksAreShownAndBreak) {
  const Rows rows = draw_rows({{"a\nb", DLLM_FINAL, 1}}, 40, false);
  ASSERT_EQ(rows.text.size(), 2u);
  EXPECT_EQ(rows.text[0], "a\u23ce");
  EXPECT_EQ(rows.text[1], "b");
}

TEST(Terminal, BadUtf8AndReorderingCharactersAreReplaced) {
  EXPECT_EQ(visible_text("\xe6\x9d"), "\uFFFD\uFFFD");
  EXPECT_EQ(visible_text("a\u202eb"), "a\uFFFDb");
  EXPECT_EQ(visible_text("\t\x7f"), "\u2409\u2421");
}

TEST(Terminal, WindowKeepsTheFirstOpenRowVisible) {
  std::vector<TokenCell> cells(100, {"ab", DLLM_FINAL, 1});
  cells[60] = {"", DLLM_MASKED, 0};
  const Rows rows = draw_rows(cells, 2, false);
  ASSERT_EQ(rows.text.size(), 100u);
  EXPECT_EQ(rows.first_open, 60u);
  const auto seen = visible_rows(rows, 10);
  ASSERT_EQ(seen.size(), 10u);
  // Two rows above it: what was just decided stays in span.
  EXPECT_EQ(seen[2], "\u2591a");
  EXPECT_EQ(visible_rows(rows, 500).size(), 100u);
}

TEST(Terminal, AnEmptyCanvasIsOneEmptyRow) {
  EXPECT_EQ(draw_rows({}, 10, false).text, std::vector<std::string>{""});
}

TEST(Terminal, BarsGrowWithTheValue) {
  EXPECT_EQ(bars({0, 0.5f, 1, -3, 7}), "▁▅█▁█");
}

TEST(Terminal, CutNeverSplitsACharacter) {
  EXPECT_EQ(cut_to("東京", 3), "東");
  EXPECT_EQ(cut_to("abc", 10), "abc");
  EXPECT_EQ(cut_to("\u00e9\u00e9", 1), "\u00e9");
}

TEST(Terminal, MeanLeavesGivenAndOpenOut) {
  EXPECT_FLOAT_EQ(mean_confidence({{"a", DLLM_FIXED, 1},
                                   {"", DLLM_MASKED, .9f},
                                   {"b", DLLM_FINAL, .5f},
                                   {"c", DLLM_PROVISIONAL, .25f}}),
                  .375f);
  EXPECT_EQ(mean_confidence({}), 0.0f);
}

} // namespace
} // namespace dllm::cli
