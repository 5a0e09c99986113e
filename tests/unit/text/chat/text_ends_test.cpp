// The rules that end an answer by its text.

#include "text/answer/text_ends.h"

#include "base/error.h"
#include "base/random.h"
#include "text/answer/answer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace dllm::text {
namespace {

constexpr size_t kNone = std::string_view::npos;

TextEnds ends_of(const Json& values) {
  Options options(answer_schema());
  options.set_json(values);
  return TextEnds(options, EndsOf::answer);
}
TextEnds stops(const std::vector<std::string>& texts) {
  return ends_of({{"stop_texts", texts}});
}
TextEnds pattern(const std::string& text) {
  return ends_of({{"stop_pattern", text}});
}

TEST(StopTexts, FindsTheOneThatIsCompleteFirst) {
  EXPECT_EQ(TextEnds().find("anything", 0), kNone);
  EXPECT_EQ(stops({"bc"}).find("abcabc", 0), 1u);
  EXPECT_EQ(stops({"bc"}).find("abcabc", 2), 4u);
  EXPECT_EQ(stops({"bc"}).find("abcabc", 5), kNone);
  EXPECT_EQ(stops({"abcd", "bc"}).find("abcd", 0), 1u);  // "bc" is complete first
  EXPECT_EQ(stops({"bcd", "abcd"}).find("abcd", 0), 0u); // both end there: the longer one
  EXPECT_EQ(stops({"abcd", "bcd"}).find("abcd", 0), 0u);
}

TEST(StopTexts, HoldsWhatMayBeginOne) {
  EXPECT_EQ(TextEnds().held("anything", 0), 0u);
  EXPECT_EQ(stops({"\n\nUser:"}).held("Hello\n\nUs", 0), 4u);
  EXPECT_EQ(stops({"\n\nUser:"}).held("Hello\n\nUs", 7), 0u); // "Us" begins no stop text
  EXPECT_EQ(stops({"aab"}).held("aaaa", 0), 2u);
  EXPECT_EQ(stops({"x", "ab", "bcd"}).held("abc", 0), 2u);
  EXPECT_EQ(stops({"abab"}).held("xaba", 0), 3u);
  EXPECT_EQ(stops({"abab"}).held("ab", 9), 0u);
}

TEST(StopTexts, RefusesTextsThatEndNothing) {
  for (const char* bad : {"", "\xC3", "a\xFF"}) EXPECT_THROW(stops({"a", bad}), Error) << bad;
  try {
    stops({"a", ""});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_EQ(error.text(), "stop_texts[1] is empty");
  }
}

TEST(StopPattern, FindsTheMatchThatIsCompleteFirst) {
  EXPECT_EQ(pattern("[0-9]+").find("ab 12 c", 0), 3u);
  EXPECT_EQ(pattern("[0-9]+").find("ab 12 c", 4), 4u);
  EXPECT_EQ(pattern("[0-9]+").find("ab c", 0), kNone);
  EXPECT_EQ(pattern("\\n[A-Z][a-z]+:").find("Yes.\nThe end\nUser: no", 0), 12u);
  EXPECT_EQ(pattern("abcd|bc").find("abcd", 0), 1u);  // "bc" is complete first
  EXPECT_EQ(pattern("bcd|abcd").find("abcd", 0), 0u); // both end there: the longer one
  EXPECT_EQ(pattern("a*b").find("xaaab", 0), 1u);
  EXPECT_EQ(pattern("\u00e9.").find("caf\u00e9\u20ac", 0), 3u); // characters are whole
  EXPECT_EQ(pattern("\\$").find("5 $", 0), 2u);
  EXPECT_EQ(pattern("").find("anything", 0), kNone);
}

TEST(StopPattern, HoldsAMatchThatMayStillGrow) {
  EXPECT_EQ(pattern("\\n[A-Z][a-z]+:").held("Yes.\nThe", 0), 4u);
  EXPECT_EQ(pattern("\\n[A-Z][a-z]+:").held("Yes.\nThe end", 0), 0u);
  EXPECT_EQ(pattern("\\n[A-Z][a-z]+:").held("Yes.\nThe", 6), 0u);
  EXPECT_EQ(pattern("a.*b").held("xay", 0), 2u);
  EXPECT_EQ(pattern("\u20ac").held("x\xE2\x82", 0), 2u); // half a character
}

TEST(StopPattern, RefusesPatternsThatEndEveryAnswerOrNone) {
  const auto refusal = [](const std::string& text) {
    try {
      pattern(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument) << text;
      return error.text();
    }
    return std::string();
  };
  EXPECT_NE(refusal("a*").find("matches an empty text"), std::string::npos);
  EXPECT_NE(refusal("(?:a").find("byte"), std::string::npos);
  for (const char* anchored : {"^a", "a$", "a\\\\$"})
    EXPECT_NE(refusal(anchored).find("^ or $"), std::string::npos) << anchored;
  EXPECT_EQ(refusal("a\\$"), "");
}

TEST(TextEnds, TheRuleThatIsCompleteFirstCounts) {
  const TextEnds both = ends_of({{"stop_texts", {"bcd"}}, {"stop_pattern", "[xc]"}});
  EXPECT_EQ(both.find("abcd", 0), 2u);
  EXPECT_EQ(both.find("abd", 0), kNone);
  EXPECT_EQ(both.held("ab", 0), 1u);
  EXPECT_EQ(ends_of({{"stop_texts", {"bc"}}, {"stop_pattern", "c"}}).find("abc", 0), 1u);
}

TEST(TextEnds, BothKindsOfOptionsHaveTheRules) {
  const auto answer = end_options(EndsOf::answer), request = end_options(EndsOf::request);
  ASSERT_EQ(answer.size(), request.size());
  ASSERT_EQ(answer.size(), std::size(text_end_files::kTable));
  for (size_t i = 0; i < answer.size(); ++i) {
    EXPECT_EQ(answer[i].group, "end");
    EXPECT_EQ(answer[i].type, request[i].type);
  }
  Options options(answer_schema());
  EXPECT_TRUE(used_ends(options, EndsOf::answer).empty());
  options.set_json({{"stop_texts", Json::array()}, {"stop_pattern", "a"}});
  EXPECT_EQ(used_ends(options, EndsOf::answer), std::vector<std::string>{"stop_pattern"});
}

// Texts of two letters, where stops overlap themselves and each other: the same cut for the whole
// text and byte by byte, and nothing is shown that is cut later.
TEST(TextEnds, GiveTheSameCutForEveryWayOfGrowing) {
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
    const auto words = [&](uint32_t most) {
      std::vector<std::string> made;
      for (uint32_t i = 0; i <= draw(most); ++i) made.push_back(word(1 + draw(6)));
      return made;
    };
    Json values = Json::object();
    const uint32_t rules = 1 + draw(3); // texts, a pattern, both
    if ((rules & 1) != 0) values["stop_texts"] = words(3);
    if ((rules & 2) != 0) {
      std::string all;
      for (const std::string& one : words(2)) {
        const char* between[] = {"", "+", "*b", ".a", "{2}a"};
        all += (all.empty() ? "" : "|") + one + between[draw(5)];
      }
      values["stop_pattern"] = all;
    }
    const TextEnds ends = ends_of(values);
    const std::string text = word(draw(30));
    const size_t from = text.empty() ? 0 : draw(static_cast<uint32_t>(text.size()));
    size_t grown = kNone, shown = 0;
    for (size_t size = 0; size <= text.size() && grown == kNone; ++size) {
      const std::string_view now = std::string_view(text).substr(0, size);
      grown = ends.find(now, from);
      if (grown == kNone) shown = std::max(shown, size - ends.held(now, from));
    }
    EXPECT_EQ(grown, ends.find(text, from)) << "seed " << seed << " " << values.dump();
    if (grown != kNone) {
      EXPECT_LE(shown, std::max(grown, from)) << "seed " << seed;
    }
  }
}

} // namespace
} // namespace dllm::text
