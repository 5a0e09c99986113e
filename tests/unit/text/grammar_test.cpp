// The automaton of a grammar accepts the texts that a reader of the grammar's language accepts.

#include "base/error.h"
#include "text/automaton/byte_automaton.h"
#include "text/automaton/grammar.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace dllm::text {
namespace {

ByteAutomaton automaton_of(const std::string& grammar) {
  return ByteAutomaton(grammar, nullptr, Notation::grammar);
}

TEST(Grammar, Syntax) {
  const auto all = [](const std::string& grammar, const std::vector<std::string>& yes,
                      const std::vector<std::string>& no) {
    const ByteAutomaton automaton = automaton_of(grammar);
    for (const std::string& text : yes) EXPECT_TRUE(automaton.matches(text)) << grammar << text;
    for (const std::string& text : no) EXPECT_FALSE(automaton.matches(text)) << grammar << text;
  };
  all(R"(root ::= "a" | [b-d] "x"? # two)", {"a", "b", "dx"}, {"", "ax", "e"});
  all("# first\nroot ::=\n  one ( \",\"\n one )*\none ::= [0-9]{1,2}\n", {"1", "12,3"}, {"", "1,"});
  all("root ::= a\n  | b\na ::= \"1\"\r\nb ::= \"2\"", {"1", "2"}, {"12"});
  all(R"(root ::= "\"\\\n\t\x41\u00e9\U0001F600")", {"\"\\\n\tA\xC3\xA9\xF0\x9F\x98\x80"}, {""});
  all(R"(root ::= [^\]\\\-a-c\n]+ .)", {"xd", "x\n"}, {"]x", "ax", "-x", "x"});
  all("root ::= [a-] (\"\" | \"b\") {2}", {"a", "-b", "abb"}, {"abbb", "b"});
  all("root ::= \"x\"{2,} (\"y\" \"z\")+ \"w\"{,2} \"v\"{0}", {"xxyz", "xxxyzyzww"},
      {"xyz", "xxyzwww", "xxyzv"});
  all("root-1 ::= \"a\"\nroot ::= root-1 root-1", {"aa"}, {"a"});
  all("root ::= \"\xC3\xA9\" [\xE2\x82\xAC-\xE2\x82\xAD]", {"\xC3\xA9\xE2\x82\xAC"}, {"\xC3\xA9"});
}

// A rule that ends with itself repeats without a limit, also through other rules.
TEST(Grammar, RulesThatEndWithThemselves) {
  const ByteAutomaton list = automaton_of("root ::= [0-9] | [0-9] \",\" root");
  const ByteAutomaton spaces = automaton_of("root ::= \"{\" ws \"}\" ws\nws ::= ([ \\n] ws)?");
  const ByteAutomaton turns = automaton_of("root ::= a\na ::= \"a\" b\nb ::= \"b\" a | \"c\"");
  std::string numbers = "7", pairs = "ac";
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(list.matches(numbers)) << i;
    EXPECT_FALSE(list.matches(numbers + ",")) << i;
    EXPECT_TRUE(turns.matches(pairs)) << i;
    numbers += ",7";
    pairs = "ab" + pairs;
  }
  EXPECT_TRUE(spaces.matches("{" + std::string(40, ' ') + "}" + std::string(30, '\n')));
  EXPECT_EQ(list.size(), 2);
}

TEST(Grammar, NestsFourTimes) {
  const ByteAutomaton brackets = automaton_of("root ::= \"(\" root \")\" | \"x\"");
  std::string text = "x";
  for (int levels = 1; levels <= 8; ++levels) {
    EXPECT_EQ(brackets.matches(text), levels <= 4) << text;
    text = "(" + text + ")";
  }
}

// expression = term, then + or - and a term, any number of times. term = a digit or an expression
// in brackets. Returns the place after an expression, or npos; depth: brackets that are left.
size_t after_expression(const std::string& text, size_t at, int depth) {
  for (;;) {
    if (at >= text.size()) return std::string::npos;
    if (text[at] == '(') {
      if (depth == 0) return std::string::npos;
      at = after_expression(text, at + 1, depth - 1);
      if (at == std::string::npos || at >= text.size() || text[at] != ')') return std::string::npos;
      ++at;
    } else if (text[at] == '1' || text[at] == '2') {
      ++at;
    } else {
      return std::string::npos;
    }
    if (at == text.size() || (text[at] != '+' && text[at] != '-')) return at;
    ++at;
  }
}

TEST(Grammar, AgreesWithARecursiveReader) {
  const ByteAutomaton automaton =
      automaton_of("root ::= expr\nexpr ::= term ([+-] term)*\nterm ::= [12] | \"(\" expr \")\"\n");
  std::mt19937 random(3);
  const auto draw = [&](auto self, int depth) -> std::string {
    std::string made;
    for (int i = 0; i == 0 || random() % 3 == 0; ++i) {
      if (i > 0) made += random() % 2 == 0 ? "+" : "-";
      made += depth > 0 && random() % 2 == 0 ? "(" + self(self, depth - 1) + ")"
                                             : std::string(1, random() % 2 == 0 ? '1' : '2');
    }
    return made;
  };
  int matched = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string text = draw(draw, 5);
    constexpr std::string_view kLetters = "12+-()";
    for (unsigned edits = random() % 3; edits > 0 && !text.empty(); --edits)
      text[random() % text.size()] = kLetters[random() % kLetters.size()];
    const bool wanted = after_expression(text, 0, 3) == text.size();
    ASSERT_EQ(automaton.matches(text), wanted) << text;
    matched += wanted ? 1 : 0;
  }
  EXPECT_GT(matched, 4000);
  EXPECT_LT(matched, 18000);
}

TEST(Grammar, Refusals) {
  const std::pair<std::string, const char*> rows[] = {
      {"", "line 1: there is no rule root"},
      {"a ::= \"x\"", "there is no rule root"},
      {"root ::= item", "line 1: there is no rule item"},
      {"root ::= \"a\nb\"", "line 1: a text has no end"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2: rule root is written twice"},
      {"root = \"a\"", "rule root has no ::="},
      {"root ::= (\"a\"", "a '(' without a ')'"},
      {"root ::= \"a\")", "\")\" is not a part of a rule"},
      {"root ::= [a", "a class has no end"},
      {"root ::= [b-a]", "whose end is below its begin"},
      {"root ::= \"a\"{3,1}", "whose end is below its begin"},
      {"root ::= \"a\"{x}", "a repetition is {2}"},
      {"root ::= \"a\"{99999}", "a repetition of more than 65536"},
      {R"(root ::= "\q")", "the escape \\q is not known"},
      {R"(root ::= "\xg1")", "a hexadecimal digit is missing"},
      {R"(root ::= "\ud800")", "d800 is not a character"},
      {"root ::= <think> \"a\"", "tokens in a grammar are not supported"},
      {"root ::= root \"a\" | \"b\"", "rule root begins with itself"},
      {"root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= \"y\"* a \"z\" | \"w\"", "begins with itself"},
      {"root ::= \"a\" root", "grammar \"root ::= \"a\" root\" matches no text"},
      {"root ::= \"(\" root \")\"", "no text has at most 4 levels"},
      {"root ::= (([a-z]{1,300}){1,300}){1,300}", "the grammar needs more than"},
      {"root ::= ([ab]* \"a\" [ab]{20})", "the grammar needs more than"},
      {"root ::= " + std::string(200, '(') + std::string(200, ')'), "too many groups"},
      {"root ::= \"\xFF\"", "the grammar is not UTF-8"}};
  for (const auto& row : rows)
    test::expect_error(Code::invalid_argument, row.second, [&] { automaton_of(row.first); });
  std::string chain = "root ::= a0\n", wide = "root ::= a0\n";
  for (int i = 0; i < 900; ++i) {
    chain += "a" + std::to_string(i) + " ::= \"x\" a" + std::to_string(i + 1) + " \"y\"\n";
    if (i == 40) break;
  }
  for (int i = 0; i < 40; ++i) {
    const std::string next = "a" + std::to_string(i + 1);
    wide += "a" + std::to_string(i) + " ::= \"x\" " + next + " \"y\" " + next + " \"z\"\n";
  }
  EXPECT_TRUE(automaton_of(chain + "a41 ::= \"!\"")
                  .matches(std::string(41, 'x') + "!" + std::string(41, 'y')));
  test::expect_error(Code::invalid_argument, "the grammar needs more than",
                     [&] { automaton_of(wide + "a40 ::= \"!\""); });
}

} // namespace
} // namespace dllm::text
