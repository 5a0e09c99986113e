#include "text/answer/stop_texts.h"

#include "base/error.h"
#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace dllm::text {
namespace {

constexpr size_t kNone = std::string_view::npos;

TEST(StopTexts, FindsTheOneThatIsCompleteFirst) {
  EXPECT_EQ(StopTexts().find("anything", 0), kNone);
  EXPECT_EQ(StopTexts({"bc"}).find("abcabc", 0), 1u);
  EXPECT_EQ(StopTexts({"bc"}).find("abcabc", 2), 4u);
  EXPECT_EQ(StopTexts({"bc"}).find("abcabc", 5), kNone);
  EXPECT_EQ(StopTexts({"abcd", "bc"}).find("abcd", 0), 1u);  // "bc" is complete first
  EXPECT_EQ(StopTexts({"bcd", "abcd"}).find("abcd", 0), 0u); // both end there: the longer one
  EXPECT_EQ(StopTexts({"abcd", "bcd"}).find("abcd", 0), 0u);
}

TEST(StopTexts, HoldsWhatMayBeginOne) {
  EXPECT_EQ(StopTexts().held("anything", 0), 0u);
  EXPECT_EQ(StopTexts({"\n\nUser:"}).held("Hello\n\nUs", 0), 4u);
  EXPECT_EQ(StopTexts({"\n\nUser:"}).held("Hello\n\nUs", 7), 0u); // "Us" begins no stop text
  EXPECT_EQ(StopTexts({"aab"}).held("aaaa", 0), 2u);
  EXPECT_EQ(StopTexts({"x", "ab", "bcd"}).held("abc", 0), 2u);
  EXPECT_EQ(StopTexts({"abab"}).held("xaba", 0), 3u);
  EXPECT_EQ(StopTexts({"abab"}).held("ab", 9), 0u);
}

TEST(StopTexts, RefusesTextsThatEndNothing) {
  for (const char* bad : {"", "\xC3", "a\xFF"}) EXPECT_THROW(StopTexts({"a", bad}), Error) << bad;
  try {
    StopTexts({"a", ""});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_EQ(error.text(), "stop_texts[1] is empty");
  }
}

// Texts of two letters, where stop texts overlap themselves and each other: the same cut for the
// whole text and byte by byte, and nothing is shown that is cut later.
TEST(StopTexts, GivesTheSameCutForEveryWayOfGrowing) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    uint64_t draws = 0;
    const auto draw = [&](uint32_t below) {
      return random_bits_at(make_key(seed), draws++) % below;
    };
    const auto word = [&](uint32_t size) {
      std::string made;
      for (uint32_t i = 0; i < size; ++i) made.push_back(draw(2) == 0 ? 'a' : 'b');
      return made;
    };
    std::vector<std::string> texts;
    for (uint32_t i = 0; i <= draw(3); ++i) texts.push_back(word(1 + draw(6)));
    const StopTexts stops(texts);
    const std::string text = word(draw(30));
    const size_t from = text.empty() ? 0 : draw(static_cast<uint32_t>(text.size()));
    size_t grown = kNone, shown = 0;
    for (size_t size = 0; size <= text.size() && grown == kNone; ++size) {
      const std::string_view now = std::string_view(text).substr(0, size);
      grown = stops.find(now, from);
      if (grown == kNone) shown = std::max(shown, size - stops.held(now, from));
    }
    EXPECT_EQ(grown, stops.find(text, from)) << "seed " << seed;
    if (grown != kNone) EXPECT_LE(shown, std::max(grown, from)) << "seed " << seed;
  }
}

} // namespace
} // namespace dllm::text
