// Requests under a grammar: checkers that know nothing of automata read every answer.

#include "base/error.h"
#include "decode/request/policy.h"
#include "generate/constraints/constraint_kinds.h"
#include "texts.h"
#include "unit/test_files.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <regex>
#include <set>

namespace dllm::generate {
namespace {

using dllm::Json;

std::shared_ptr<text::Tokenizer> characters() {
  std::vector<std::string> pieces = {"\n"};
  for (char c = ' '; c <= '~'; ++c) pieces.emplace_back(1, c);
  for (const char* more : {"{\"", "\":", "\", \"", "\"}", "12", "true", "ull", "- ", ") ", " *"})
    pieces.emplace_back(more);
  return tokenizer_of(pieces, {"<end>", "<mask>"});
}

// Reads arithmetic by recursive descent.
class Arithmetic {
public:
  explicit Arithmetic(const std::string& text) : text_(text) {}
  bool is_valid() { return sum() && at_ == text_.size(); }

private:
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool sum() {
    if (!product()) return false;
    while (take('+') || take('-')) {
      if (!product()) return false;
    }
    return true;
  }
  bool product() {
    if (!factor()) return false;
    while (take('*') || take('/')) {
      if (!factor()) return false;
    }
    return true;
  }
  bool factor() {
    if (take('(')) return sum() && take(')');
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ > begin;
  }

  std::string text_;
  size_t at_ = 0;
};

bool is_json(const std::string& text) {
  const Json value = Json::parse(text, nullptr, false);
  return !value.is_discarded() && value.is_object();
}

struct Language {
  const char* name;
  const char* grammar;
  std::function<bool(const std::string&)> is_valid;
};

const std::vector<Language>& languages() {
  static const std::vector<Language> all = {
      {"arithmetic",
       "root ::= sum\n"
       "sum ::= product ([-+] product)*\n"
       "product ::= factor ([*/] factor)*\n"
       "factor ::= [0-9]+ | \"(\" sum \")\"\n",
       [](const std::string& text) { return Arithmetic(text).is_valid(); }},
      {"list", "root ::= item+\nitem ::= \"- \" [^\\r\\n]+ \"\\n\"\n",
       [](const std::string& text) {
         return std::regex_match(text, std::regex("(?:- [^\\r\\n]+\\n)+"));
       }},
      {"json",
       "root ::= object\n"
       "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
       "object ::=\n"
       "  \"{\" ws (\n"
       "    string \":\" ws value\n"
       "    (\",\" ws string \":\" ws value)*\n"
       "  )? \"}\" ws\n"
       "array ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
       "string ::= \"\\\"\" ([^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
       "[0-9a-cA-C] [0-9a-fA-F]{3}))* \"\\\"\" ws\n"
       "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]+)? ([eE] [-+]? [0-9] "
       "[0-9]?)? ws\n"
       "ws ::= ([ \\n] ws)?\n",
       is_json},
      {"chess",
       "root ::= [1-9] [0-9]? \". \" move \" \" move (\"\\n\" [1-9] [0-9]? \". \" move \" \" "
       "move)*\n"
       "move ::= (pawn | piece | castle) [+#]?\n"
       "pawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\n"
       "piece ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"
       "castle ::= \"O-O\" \"-O\"?\n",
       [](const std::string& text) {
         const std::string move =
             "(?:(?:[a-h]x)?[a-h][1-8](?:=[NBKQR])?|[NBKQR][a-h]?[1-8]?x?[a-h][1-8]|O-O(?:-O)?)"
             "[+#]?";
         const std::string turn = "[1-9][0-9]?\\. " + move + " " + move;
         return std::regex_match(text, std::regex(turn + "(?:\\n" + turn + ")*"));
       }}};
  return all;
}

class GrammarUnderPolicies : public ::testing::TestWithParam<std::string> {};

TEST_P(GrammarUnderPolicies, EveryAnswerIsOfTheLanguage) {
  const auto tokenizer = characters();
  const int64_t vocabulary = tokenizer->size() + 4;
  Generator generator(
      small_model(Json::object(), "a2d-llama", tokenizer->special().mask, vocabulary), tokenizer,
      settings());
  for (const Language& language : languages()) {
    std::set<std::string> texts;
    for (int seed = 0; seed < 6; ++seed) {
      const int64_t number = generator.add(request({{"policy", GetParam()},
                                                    {"prompt", "say "},
                                                    {"length", 24 + 3 * seed},
                                                    {"temperature", seed % 2 == 0 ? 1.0 : 4.0},
                                                    {"seed", seed},
                                                    {"grammar", language.grammar}}));
      generator.run();
      const std::string text = generator.text(number, TextPart::completion);
      EXPECT_TRUE(language.is_valid(text)) << language.name << ": " << text;
      texts.insert(text);
      generator.remove(number);
    }
    EXPECT_GT(texts.size(), 3u) << language.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, GrammarUnderPolicies,
                         ::testing::Values("low_confidence", "random", "autoregressive", "spd",
                                           "confidence_remasking"),
                         [](const auto& test) { return test.param; });

TEST(GrammarRequests, Errors) {
  Generator generator(small_model(), letters(), settings());
  const auto add = [&](const Json& more) {
    Json values = {{"policy", "low_confidence"}, {"prompt", "say "}, {"length", 4}};
    values.update(more);
    generator.add(request(values));
  };
  test::expect_error(Code::invalid_argument, "options regex and grammar cannot both be set", [&] {
    add({{"regex", "a"}, {"grammar", "root ::= \"a\""}});
  });
  test::expect_error(Code::invalid_argument, "line 1: there is no rule root", [&] {
    add({{"grammar", "a ::= \"a\""}});
  });
  test::expect_error(Code::invalid_argument, "no text of 4 tokens matches the grammar \"root", [&] {
    add({{"grammar", "root ::= [a-z]{7}"}});
  });
  test::expect_error(Code::invalid_argument,
                     "cuts the text that regex, choices, json_schema or "
                     "grammar ask for",
                     [&] {
                       add({{"grammar", "root ::= [a-z]+"}, {"stop", {"x"}}});
                     });
}

} // namespace
} // namespace dllm::generate
