// Patterns as automata over bytes: the same texts match as in PCRE2.

#include "base/error.h"
#include "text/automaton/byte_automaton.h"
#include "text/automaton/code_points.h"
#include "text/automaton/json_pattern.h"
#include "text/tokenizer/regex.h"
#include "text/unicode.h"
#include "unit/sanitized.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace dllm::text {
namespace {

// Returns nothing where PCRE2 gives up: it tries one way after another.
std::optional<bool> pcre_matches(const std::string& pattern, const std::string& text) {
  const Regex regex("\\A(?:" + pattern + ")\\z", "test");
  Regex::Search search(regex, text);
  size_t begin = 0, end = 0;
  try {
    return search.next(begin, end);
  } catch (const Error&) {
    return std::nullopt;
  }
}

class RandomPattern {
public:
  explicit RandomPattern(uint32_t seed) : random_(seed) {}

  std::string pattern(int depth = 3) {
    std::string made;
    const int parts = 1 + below(3);
    for (int i = 0; i < parts; ++i) {
      if (i > 0 && below(3) == 0) made += "|";
      made += atom(depth) + times();
    }
    return made;
  }
  std::string text() {
    std::string made;
    for (int i = below(6); i > 0; --i) made += kLetters[static_cast<size_t>(below(7))];
    return made;
  }

  bool chance(int of) { return below(of) == 0; }

private:
  static inline const std::vector<std::string> kLetters = {"a", "b", "c", "-", "é", "√", "😀"};

  int below(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  std::string letter() {
    const std::string one = kLetters[static_cast<size_t>(below(7))];
    return one == "-" ? "\\-" : one;
  }
  std::string atom(int depth) {
    switch (below(depth > 0 ? 6 : 4)) {
    case 0: return ".";
    case 1: return std::string("[") + (below(2) == 0 ? "^" : "") + letter() + letter() + "]";
    case 2: return "[a-cé-√]";
    case 4: return "(" + pattern(depth - 1) + ")";
    case 5: return "(?:" + pattern(depth - 1) + ")";
    default: return letter();
    }
  }
  std::string times() {
    switch (below(8)) {
    case 0: return "*";
    case 1: return "+";
    case 2: return "?";
    case 3: return "{2}";
    case 4: return "{1,3}";
    case 5: return "{2,}?";
    default: return "";
    }
  }

  std::mt19937 random_;
};

// Returns the automaton of a pattern; nothing for one that needs too many states.
std::optional<ByteAutomaton> small_automaton(const std::string& pattern) {
  try {
    return ByteAutomaton(pattern);
  } catch (const Error& error) {
    if (error.text().find("needs more than") == std::string::npos) throw;
    return std::nullopt;
  }
}

TEST(ByteAutomaton, MatchesAsPcre) {
  int64_t matched = 0, compared = 0, large = 0;
  for (uint32_t seed = 0; seed < test::some_cases(100U); ++seed) {
    RandomPattern random(seed);
    const std::string pattern = random.pattern();
    const std::optional<ByteAutomaton> made = small_automaton(pattern);
    large += made ? 0 : 1;
    if (!made) continue;
    const ByteAutomaton& automaton = *made;
    for (int i = 0; i < 40; ++i) {
      const std::string text = random.text();
      const std::optional<bool> wanted = pcre_matches(pattern, text);
      if (!wanted) continue;
      ASSERT_EQ(automaton.matches(text), *wanted) << pattern << " on " << text;
      matched += *wanted ? 1 : 0;
      ++compared;
    }
  }
  EXPECT_GT(matched, compared / 50);
  EXPECT_LT(large, 20);
  EXPECT_GT(compared, test::some_cases(3000)); // of 4000
}

TEST(ByteAutomaton, CanBeCancelled) {
  Task task;
  task.cancel();
  test::expect_error(Code::cancelled, "", [&] { ByteAutomaton("a{8000}", &task); });
}

// The texts of (?&(A)(B)) match A and B, and those of (?&!(A)(B)) match A alone.
void compare_pairs(const char* form, const std::function<bool(bool, bool)>& wanted_of,
                   int64_t least) {
  int64_t matched = 0, compared = 0;
  for (uint32_t seed = 0; seed < test::some_cases(100U); ++seed) {
    RandomPattern random(seed);
    const std::string one = random.pattern(2), two = random.pattern(2);
    std::optional<ByteAutomaton> made;
    const std::optional<ByteAutomaton> first = small_automaton(one), second = small_automaton(two);
    if (!first || !second) continue;
    try {
      made.emplace(form + ("(?:" + one + ")(?:" + two + "))"));
    } catch (const Error& error) { // no text is left, or there are too many states
      continue;
    }
    for (int i = 0; i < 40; ++i) {
      const std::string text = random.text();
      const bool wanted = wanted_of(first->matches(text), second->matches(text));
      ASSERT_EQ(made->matches(text), wanted) << form << one << " and " << two << " on " << text;
      matched += wanted ? 1 : 0;
      ++compared;
    }
  }
  EXPECT_GT(matched, test::some_cases(least));
  EXPECT_GT(compared, test::some_cases(1500));
}

TEST(ByteAutomaton, MatchesBothOfTwoPatterns) {
  compare_pairs("(?&", std::logical_and<bool>(), 100);
}

TEST(ByteAutomaton, MatchesOnePatternAndNotAnother) {
  compare_pairs(
      "(?&!", [](bool one, bool two) { return one && !two; }, 100);
}

// (?,(S)(A)(B)?(C)*(D)+) is the same as its parts written out.
TEST(ByteAutomaton, ListsHaveASeparatorBetweenItems) {
  const char* lists[] = {"(?:a)?(?:b)?(?:c)?", "(?:a)(?:b)?(?:c)*", "(?:a)*",
                         "(?:a)+(?:b)+",       "(?:a)*(?:b)*(?:c)", "(?:a|bb)*(?:c)?",
                         "(?:ab*)?(?:b+)*"};
  for (const std::string list : lists) {
    // Each item takes the separator after it. The last separator is one more at the end.
    std::string parts = list;
    for (size_t at = 0; (at = parts.find(')', at)) != std::string::npos; at += 3)
      parts.replace(at, 1, "),)");
    for (size_t at = 0; (at = parts.find("(?:", at)) != std::string::npos; at += 6)
      parts.replace(at, 3, "(?:(?:");
    const ByteAutomaton automaton("(?,(?:,)" + list + ")"), longer(parts);
    std::vector<std::string> texts = {""};
    for (size_t i = 0; i < texts.size() && texts.size() < 40000; ++i) {
      for (const char c : {'a', 'b', 'c', ','}) texts.push_back(texts[i] + c);
      const bool wanted = longer.matches(texts[i].empty() ? "" : texts[i] + ",");
      ASSERT_EQ(automaton.matches(texts[i]), wanted) << list << " on " << texts[i];
    }
  }
}

// A JSON text has a part that matches, as PCRE2 finds one.
TEST(ByteAutomaton, SearchesInJson) {
  const std::string any = R"([^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-f]{4}))";
  int64_t matched = 0, compared = 0;
  for (uint32_t seed = 0; seed < test::some_cases(150U); ++seed) {
    RandomPattern random(seed);
    const bool has_front = seed % 3 == 0, has_back = seed % 2 == 0;
    const std::string middle = random.pattern(2);
    const std::string pattern = (has_front ? "^" : "") + middle + (has_back ? "$" : "");
    // Regex has lines: ^ and $ match next to a line break too.
    const Regex regex((has_front ? "\\A" : "") + middle + (has_back ? "\\z" : ""), "test");
    std::optional<ByteAutomaton> automaton = small_automaton(json_pattern(pattern, any));
    if (!automaton) continue;
    for (int i = 0; i < 30; ++i) {
      std::string text = random.text();
      for (const char* more : {"\"", "\\", "\n", "\x02"}) {
        if (random.chance(4)) text.insert(random.chance(2) ? 0 : text.size(), more);
      }
      Regex::Search search(regex, text);
      size_t begin = 0, end = 0;
      const bool wanted = search.next(begin, end);
      const std::string json = nlohmann::json(text).dump();
      const std::string inside = json.substr(1, json.size() - 2);
      ASSERT_EQ(automaton->matches(inside), wanted) << pattern << " on " << json;
      matched += wanted ? 1 : 0;
      ++compared;
    }
  }
  EXPECT_GT(matched, compared / 10);
  EXPECT_LT(matched, compared);
  EXPECT_GT(compared, test::some_cases(2000));
}

// Each code point, alone and between its neighbours.
TEST(ByteAutomaton, ClassesAreCodePoints) {
  const CodePoints set = {{0x20, 0x7E}, {0x7FF, 0x800}, {0x3042, 0xE000}, {0xFFFF, 0x10000}};
  const ByteAutomaton automaton("[ -~\\u07ff-\\u0800\\u3042-\\ue000\xEF\xBF\xBF-\xF0\x90\x80\x80]"),
      others("[^ -~\\u07ff-\\u0800\\u3042-\\ue000\xEF\xBF\xBF-\xF0\x90\x80\x80]");
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    bool in = false;
    for (const CodeRange& range : set.ranges())
      in = in || (range.first <= code && code <= range.last);
    ASSERT_EQ(automaton.matches(to_utf8(code)), in) << code;
    ASSERT_EQ(others.matches(to_utf8(code)), !in) << code;
  }
  EXPECT_FALSE(automaton.matches("\xED\xA0\x80")) << "a surrogate";
  EXPECT_FALSE(ByteAutomaton(".").matches("\xC3")) << "half a character";
  EXPECT_FALSE(ByteAutomaton(".*").matches("\n"));
}

TEST(ByteAutomaton, Syntax) {
  const auto all = [](const char* pattern, const std::vector<std::string>& yes,
                      const std::vector<std::string>& no) {
    const ByteAutomaton automaton(pattern);
    for (const std::string& text : yes)
      EXPECT_TRUE(automaton.matches(text)) << pattern << " " << text;
    for (const std::string& text : no)
      EXPECT_FALSE(automaton.matches(text)) << pattern << " " << text;
  };
  all("^\\d{2}-\\w+$", {"12-a_Z9"}, {"1-a", "12-", "12-é", "x12-a"});
  all("\\S\\s\\D\\W", {"a\tb-"}, {"a bc"});
  all("\\x41\\u00e9\\.\\/\\-", {"A\xC3\xA9./-"}, {"A"});
  all("[]a]", {"]", "a"}, {"b"});
  all("[a-]", {"-", "a"}, {"b"});
  all("[\\d\\-x]", {"7", "-", "x"}, {"y"});
  all("(?<year>\\d{4})|(?P<word>a+?)", {"2026", "aaa"}, {"20", ""});
  all("", {""}, {"a"});
  all("a||b", {"", "a", "b"}, {"ab"});
  all("x(?&(?:a*b*)(?:.{2}))", {"xaa", "xab", "xbb"}, {"xa", "xba", "xaab"});
  all("x(?&!(?:.*)(?:a|bc))", {"x", "xb", "xaa"}, {"xa", "xbc"});
  all("\\[(?,(?:, ?)(?:1)?(?:2)*)\\]", {"[]", "[1]", "[2]", "[1,2, 2]"}, {"[1,]", "[,1]", "[2,1]"});
  all("\\{\"a\": (true|false)\\}", {"{\"a\": true}"}, {"{\"a\": maybe}"});
}

TEST(ByteAutomaton, Refusals) {
  for (const char* pattern : {"a)",
                              "(a",
                              "[a",
                              "a{2",
                              "a{3,1}",
                              "a{99999}",
                              "*a",
                              "a**",
                              "a{2}{3}",
                              "\\",
                              "\\b",
                              "\\1",
                              "(?=a)",
                              "(?!a)",
                              "(?<=a)b",
                              "(?i)a",
                              "(?&a)",
                              "(?&(?:a))",
                              "(?&(?:a)(?:b)",
                              "a^b",
                              "(?,(?:a))",
                              "(?,(?:a)?(?:b))",
                              "(?,a)",
                              "(?&!(?:a))",
                              "a$b",
                              "[b-a]",
                              "\\xg0",
                              "\\u12",
                              "[\\d-z]{,}",
                              "\xFF",
                              "\\p{L}"}) {
    test::expect_error(Code::invalid_argument, "pattern",
                       [&] { ByteAutomaton automaton(pattern); });
  }
  std::vector<const char*> large = {"(a|b)*a(a|b){20}"};
  if (!test::kIsSanitized) large.insert(large.end(), {"(a{1000}){1000}", "(a{1,300}){1,300}"});
  for (const char* pattern : large) {
    test::expect_error(Code::invalid_argument, "the pattern needs more than",
                       [&] { ByteAutomaton automaton(pattern); });
  }
  const std::string deep = std::string(300, '(') + std::string(300, ')');
  test::expect_error(Code::invalid_argument, "groups", [&] { ByteAutomaton automaton(deep); });
  test::expect_error(Code::invalid_argument, "no text", [] { ByteAutomaton("[^\\d\\D]"); });
}

TEST(ByteAutomaton, IsSmallest) {
  EXPECT_EQ(ByteAutomaton("(?:ab|cb)(?:d|e)").size(), 4);
  EXPECT_EQ(ByteAutomaton("(?:a|b|c)*").size(), 1);
}

} // namespace
} // namespace dllm::text
