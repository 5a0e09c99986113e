#include "text/unicode.h"

#include "base/random.h"
#include "unit/sanitized.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace dllm::text {
namespace {

constexpr Form kForms[] = {Form::nfc, Form::nfd, Form::nfkc, Form::nfkd};

// utf8proc's own normalization, which orders marks by exchanging neighbours.
std::string reference(const std::string& text, Form form) {
  int options = UTF8PROC_STABLE;
  options |= form == Form::nfc || form == Form::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == Form::nfkc || form == Form::nfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* made = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &made,
                                 static_cast<utf8proc_option_t>(options));
  const std::string copy(reinterpret_cast<const char*>(made), static_cast<size_t>(size));
  std::free(made);
  return copy;
}

TEST(Normalize, EveryCharacterInEveryForm) {
  constexpr char32_t kStep = test::kIsSanitized ? 7 : 1;
  std::string all;
  for (char32_t code = kStep; code <= 0x10FFFF; code += kStep) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    const std::string one = "a" + to_utf8(code) + "\xCC\x81";
    for (const Form form : kForms) {
      ASSERT_EQ(normalize(one, form), reference(one, form))
          << std::hex << static_cast<uint32_t>(code);
    }
    if (code % 7 == 0) all += to_utf8(code);
  }
  for (const Form form : kForms) EXPECT_EQ(normalize(all, form), reference(all, form));
}

// What Python's unicodedata.normalize answers.
TEST(Normalize, EqualsAnotherImplementation) {
  const std::tuple<const char*, Form, const char*> cases[] = {
      {"e\u0301", Form::nfc, "\u00e9"},
      {"\u00e9", Form::nfd, "e\u0301"},
      {"a\u0323\u0307", Form::nfc, "\u1ea1\u0307"},
      {"a\u0307\u0323", Form::nfc, "\u1ea1\u0307"},
      {"\u1e9b\u0323", Form::nfc, "\u1e9b\u0323"},
      {"\u1e9b\u0323", Form::nfd, "\u017f\u0323\u0307"},
      {"\u1e9b\u0323", Form::nfkc, "\u1e69"},
      {"\u1e9b\u0323", Form::nfkd, "s\u0323\u0307"},
      {"\ud55c\uae00", Form::nfd, "\u1112\u1161\u11ab\u1100\u1173\u11af"},
      {"\u1112\u1161\u11ab", Form::nfc, "\ud55c"},
      {"\ufb01\u00b2", Form::nfkc, "fi2"},
      {"\ufdfa", Form::nfkd,
       "\u0635\u0644\u0649 \u0627\u0644\u0644\u0647 \u0639\u0644\u064a\u0647 "
       "\u0648\u0633\u0644\u0645"},
      {"\u0344", Form::nfc, "\u0308\u0301"},
      {"\u0958", Form::nfc, "\u0915\u093c"},
      {"\U0001d15e", Form::nfc, "\U0001d157\U0001d165"},
      {"A\u030aB", Form::nfc, "\u00c5B"},
      {"plain \u00c5 text", Form::nfd, "plain A\u030a text"}};
  for (const auto& [text, form, expected] : cases)
    EXPECT_EQ(normalize(text, form), expected) << text;
}

TEST(Normalize, RandomRunsOfMarks) {
  // Starters, marks of many classes, characters that decompose into marks, Hangul letters.
  const char32_t codes[] = {'a',    'e',    0x41,   0x1100, 0x1161, 0x11A8,  0xAC00, 0x300, 0x301,
                            0x307,  0x308,  0x315,  0x31B,  0x323,  0x327,   0x328,  0x334, 0x338,
                            0x345,  0x360,  0x5B0,  0x5B1,  0x64B,  0x651,   0x93C,  0x94D, 0x344,
                            0x1E69, 0x1EA5, 0xFB2C, 0x3099, 0xFDFA, 0x1D165, 0x20,   0x212B};
  const Key key = make_key(5);
  uint64_t draw = 0;
  const auto below = [&](size_t n) { return static_cast<size_t>(random_bits_at(key, draw++)) % n; };
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    const size_t length = round % 50 == 0 ? 200 : 1 + below(60);
    for (size_t i = 0; i < length; ++i) text += to_utf8(codes[below(std::size(codes))]);
    for (const Form form : kForms) ASSERT_EQ(normalize(text, form), reference(text, form)) << text;
  }
}

// 800 KB of marks of two classes in turn: neighbours exchanged one by one are 4 * 10^10 steps, an
// hour.
TEST(Normalize, ALongRunOfMarksIsSorted) {
  constexpr size_t kPairs = 200'000;
  std::string text = "a";
  for (size_t i = 0; i < kPairs; ++i) text += "\xCC\x81\xCC\xA3"; // U+0301 (230), U+0323 (220)
  std::string expected = "\xE1\xBA\xA1";                          // U+1EA1: a with U+0323
  for (size_t i = 1; i < kPairs; ++i) expected += "\xCC\xA3";
  for (size_t i = 0; i < kPairs; ++i) expected += "\xCC\x81";
  EXPECT_TRUE(normalize(text, Form::nfc) == expected);
  EXPECT_TRUE(normalize(text, Form::nfkc) == expected);
}

} // namespace
} // namespace dllm::text
