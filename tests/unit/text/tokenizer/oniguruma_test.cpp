#include "text/tokenizer/oniguruma.h"

#include "base/error.h"
#include "text/tokenizer/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dllm::text {
namespace {

// The matches, in order.
std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  const Regex regex(pattern, "test");
  std::vector<std::string> found;
  Regex::Search search(regex, text);
  for (size_t begin = 0, end = 0; search.next(begin, end);)
    found.push_back(text.substr(begin, end - begin));
  return found;
}

struct PatternCase {
  const char* pattern;
  const char* text;
  std::vector<std::string> matches; // as the tokenizers package 0.23.3 has them (Oniguruma, Ruby)
};

const PatternCase kPatterns[] = {
    // Classes.
    {R"([\p{L}&&[^\p{Han}]]+)", "a世b", {"a", "b"}},
    {R"([a-z&&[^aeiou]]+)", "hello", {"h", "ll"}},
    {R"([^a-c&&b-z]+)", "abcd", {"a", "d"}},
    {R"([a-c[x-z]]+)", "abxdyz", {"abx", "yz"}},
    {R"([^[ab]c]+)", "abcd e", {"d e"}},
    {R"([^\S\n]+)", "a \tb\n c", {" \t", " "}},
    {R"([]a]+)", "a]b", {"a]"}},
    {R"([[:alpha:]]+)", "aé1", {"aé"}},
    {R"([[:^alpha:]]+)", "a12b", {"12"}},
    {R"([[:punct:]]+)", "a+$,b", {"+$,"}},
    {R"([[:xdigit:]]+)", "xAf9g", {"Af9"}},
    // Escapes.
    {R"(\h+)", "az fz bg", {"a", "f", "b"}},
    {R"(\H+)", "az fz bg", {"z ", "z ", "g"}},
    {R"([\hx]+)", "xaf z", {"xaf"}},
    {R"(\w+)", "e\xCC\x81t x", {"e\xCC\x81t", "x"}},
    {R"(\b)"
     "e"
     R"(\b)",
     "e e\xCC\x81",
     {"e"}},
    {R"(\v)", "a\x0B\n", {"\x0B"}},
    // Signs that are word characters outside brackets alone.
    {R"(\w+)", "a²b³¹ ¼½¾x ª", {"a²b³¹", "¼½¾x", "ª"}},
    {R"(\W+)", "²¼ ×", {" ×"}},
    {R"([\w]+)", "a²b", {"a", "b"}},
    {R"([^\w]+)", "a²b", {"²"}},
    {R"([[:word:]]+)", "a²", {"a"}},
    {R"(\p{Word}+)", "a² ¾", {"a²", "¾"}},
    {R"(\P{Word}+)", "a² ¾", {" "}},
    {R"(\p{^Word}+)", "a² ¾", {" "}},
    {R"(\P{^Word}+)", "a² ¾", {"a²", "¾"}},
    {R"([\p{Word}]+)", "a² ¾", {"a"}},
    {R"(\b²\b)", "a² ² ²×", {"²", "²"}},
    {R"(\B²)", "a² ×²", {"²"}},
    // Properties by their long names.
    {R"(\p{Letter}+\p{Uppercase_Letter})", "aéB1", {"aéB"}},
    {R"(\p{nonspacing mark}|\p{Decimal_Number})",
     "e\xCC\x81"
     "1",
     {"\xCC\x81", "1"}},
    {R"([\p{Mark}\p{Separator}]+)", "e\xCC\x81 x", {"\xCC\x81 "}},
    {R"(\P{Letter}+)", "a1+b", {"1+"}},
    {R"(\p{^Letter}+)", "a1+b", {"1+"}},
    {R"(\p{Assigned}+)", "a\xF4\x80\x80\x80\xCD\xB8", {"a\xF4\x80\x80\x80"}},
    {R"(\P{Assigned})", "a\xCD\xB8", {"\xCD\xB8"}},
    {R"(\p{Punct}+)", "a!?$+,b", {"!?", ","}},
    {R"(\p{Punctuation}+)", "a$,b", {","}},
    {R"([\p{Punct}]+)", "a$,b", {","}},
    {R"(\p{PosixPunct}+)", "a$,b", {"$,"}},
    {R"(\p{Symbol}+)", "a$,b", {"$"}},
    {R"(a\Ob)", "a\nb", {"a\nb"}},
    {R"(\u4e16)", "世", {"世"}},
    {R"(\Q+)", "QQ+", {"QQ"}},
    {R"(\p{Han}+)", "世、", {"世"}},
    {R"(\p{^Alpha}+)", "a12b", {"12"}},
    // Lines and options.
    {R"(^a)", "a\na", {"a", "a"}},
    {R"(b$)", "b\nb", {"b", "b"}},
    {R"((?m)a.b)", "a\nb", {"a\nb"}},
    {R"((?m:a.)b)", "a\nb", {"a\nb"}},
    {R"(a(?i)b|c)", "aB C aC", {"aB", "aC"}},
    {R"((?i:'s|'t))", "don'T", {"'T"}},
    // One letter and several that differ in case alone.
    {R"((?i)ass)", "aß ASS aẞ as", {"aß", "ASS", "aẞ"}},
    {R"((?i:fi|fl)x)", "ﬁx FLx fx", {"ﬁx", "FLx"}},
    {R"((?i)ffi)", "ﬃ ffI ﬀ", {"ﬃ", "ffI"}},
    {R"((?i)st)", "ﬆ ﬅ sT", {"ﬆ", "ﬅ", "sT"}},
    {R"((?i)ß+)", "ssß SS s", {"ssß", "SS"}},
    {R"((?i)ﬁ)", "ﬁ Fi f", {"ﬁ", "Fi"}},
    {R"((?i)ss+)", "ß sss", {"sss"}},
    {R"((?i)s(?-i)s|ß)", "ß ss SS Ss", {"ss", "Ss"}},
    {R"(ss|ß)", "ß ss SS", {"ß", "ss"}},
    {R"((?i:(ss))t)", "ßt", {"ßt"}},
    {R"((?i:a)ss)", "Aß Ass", {"Ass"}},
    {R"(x(?#a comment)y)", "xy", {"xy"}},
    // Quantifiers.
    {R"(a{1,2}+b)", "aaab", {"aaab"}},
    {R"((?:ab){2}?c)", "ababc c", {"ababc", "c"}},
    {R"(a{,2}b)", "aab b", {"aab", "b"}},
    {R"(世{1,2}+)", "世世世", {"世世世"}},
    {R"(a{x)", "a{x", {"a{x"}},
    {R"(a++b)", "aab", {"aab"}},
    // Groups.
    {R"((?<n>a)\k<n>)", "aab", {"aa"}},
    {R"((?<=a)b(?!c))", "abc ab", {"b"}},
    {R"(a\Kb)", "ab", {"b"}},
    {R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)", "1234 !?", {"123", "4", " !?"}},
};

TEST(Oniguruma, PatternsMeanWhatTheyMeanThere) {
  for (const PatternCase& c : kPatterns)
    EXPECT_EQ(matches(c.pattern, c.text), c.matches) << c.pattern;
}

TEST(Oniguruma, WhatHasNoCounterpartIsRefusedByName) {
  for (const auto& [pattern, named] : {std::pair{R"((?~abc))", "(?~"},
                                       {R"((?{f}))", "(?{"},
                                       {R"((*FAIL))", "(*"},
                                       {R"(\y)", "\\y"},
                                       {R"((?W)a)", "option W"},
                                       {R"(\xE3\x80)", "\\xE3"}}) {
    try {
      oniguruma_to_pcre2(pattern, "here");
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::unimplemented);
      EXPECT_NE(error.text().find(named), std::string::npos) << error.text();
      EXPECT_TRUE(error.text().starts_with("here: ")) << error.text();
    }
  }
  EXPECT_THROW(oniguruma_to_pcre2("[a", "here"), Error);
  EXPECT_THROW(oniguruma_to_pcre2(std::string(100, '['), "here"), Error);
}

} // namespace
} // namespace dllm::text
