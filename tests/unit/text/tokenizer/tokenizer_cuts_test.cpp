// Where a text is cut. The tokens are those of the tokenizers package 0.23.3.
#include "text/tokenizer.h"

#include "text/tokenizer/parts.h"
#include "text/tokenizer/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dllm::text {
namespace {

using Tokens = std::vector<std::string>;

TreeJson metaspace(const char* scheme) {
  return {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", true}};
}

TreeJson before_metaspace(TreeJson first) {
  return {{"type", "Sequence"},
          {"pretokenizers", TreeJson::array({std::move(first), metaspace("first")})}};
}

TreeJson split(const char* kind, const char* pattern, const char* behavior, bool invert = false) {
  return {{"type", "Split"},
          {"pattern", {{kind, pattern}}},
          {"behavior", behavior},
          {"invert", invert}};
}

TreeJson replace(const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", content}};
}

TreeJson all_of(std::vector<TreeJson> parts) {
  return {{"type", "Sequence"}, {"normalizers", TreeJson(std::move(parts))}};
}

// The tokens of a text where every piece is one token; a piece that is not expected is <unk>.
Tokens tokens_of(const std::string& text, const Tokens& expected, const TreeJson& normalizer,
                 const TreeJson& pre_tokenizer, TreeJson added = TreeJson::array()) {
  TreeJson vocab = {{"<unk>", 0}};
  for (const std::string& token : expected) {
    if (!vocab.contains(token)) vocab[token] = vocab.size();
  }
  for (TreeJson& token : added) {
    const std::string content = token["content"];
    token["id"] = vocab.contains(content) ? vocab[content] : TreeJson(vocab.size());
    if (!token.contains("normalized")) token["normalized"] = false;
    vocab[content] = token["id"];
  }
  const TreeJson json = {
      {"added_tokens", added},
      {"normalizer", normalizer},
      {"pre_tokenizer", pre_tokenizer},
      {"model", {{"type", "WordLevel"}, {"vocab", vocab}, {"unk_token", "<unk>"}}}};
  const Tokenizer tokenizer(read_tokenizer_json(json.dump(), "test"), Options(tokenizer_schema()));
  Tokens tokens;
  for (const int32_t id : tokenizer.encode(text)) tokens.emplace_back(tokenizer.token(id));
  return tokens;
}

// What an added token strips is looked through once more: a token inside it counts.
TEST(Cuts, AddedTokensInsideStrippedSpace) {
  struct Case {
    const char* text;
    TreeJson added;
    Tokens tokens;
  };
  const auto token = [](const char* content, bool left, bool right) {
    return TreeJson{{"content", content}, {"lstrip", left}, {"rstrip", right}};
  };
  const TreeJson right = {token("<x>", false, true), token("  ", false, false)};
  const TreeJson left = {token("<x>", true, false), token("  ", false, false)};
  const TreeJson lines = {token("<x>", false, true), token("\n\n", false, false)};
  const TreeJson twice = {token("<x>", false, true), token("  ", false, true)};
  const TreeJson all = {token("<x>", false, true), token("  ", true, true)};
  const TreeJson facing = {token("<x>", false, true), token("<y>", true, false)};
  for (const Case& c : {Case{"a <x>  b", right, {"a ", "<x>", "  ", "b"}},
                        {"a <x>   b", right, {"a ", "<x>", "  ", " b"}},
                        {"a <x>\n  b", right, {"a ", "<x>", "  ", "b"}},
                        {"a <x>\n  \nb", right, {"a ", "<x>", "  ", "\nb"}},
                        {"a   <x>b", left, {"a", "  ", "<x>", "b"}},
                        {"a<x>\n\n\nb", lines, {"a", "<x>", "\n\n", "\nb"}},
                        {"<x>    b", twice, {"<x>", "  ", "  ", "b"}},
                        {"<x>     b", all, {"<x>", "b"}},
                        {"<x> <y>", facing, {"<x>", "<y>"}}}) {
    EXPECT_EQ(tokens_of(c.text, c.tokens, nullptr, nullptr, c.added), c.tokens) << c.text;
  }
}

// "first" asks whether a piece begins with the first character of the text as it came.
TEST(Cuts, MetaspaceFirstLooksAtTheTextAsItCame) {
  struct Case {
    const char* text;
    TreeJson normalizer, pre_tokenizer;
    Tokens tokens;
  };
  const TreeJson strip = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}};
  const TreeJson x = {{"type", "Prepend"}, {"prepend", "x"}};
  const TreeJson one = {{"type", "Prepend"}, {"prepend", "1"}};
  const TreeJson lower = {{"type", "Lowercase"}};
  const auto bert = [](bool clean, bool chinese) {
    return TreeJson{{"type", "BertNormalizer"},
                    {"clean_text", clean},
                    {"handle_chinese_chars", chinese},
                    {"strip_accents", false},
                    {"lowercase", false}};
  };
  const TreeJson first = metaspace("first");
  const TreeJson words = before_metaspace({{"type", "WhitespaceSplit"}});
  const TreeJson digits = before_metaspace({{"type", "Digits"}, {"individual_digits", true}});
  const TreeJson marks = before_metaspace({{"type", "Punctuation"}, {"behavior", "Isolated"}});
  const auto at = [](const char* text) {
    return before_metaspace(split("String", text, "Isolated"));
  };
  for (const Case& c : {
           Case{"ab cd", nullptr, first, {"▁ab", "▁cd"}},
           {"  ab cd", strip, first, {"ab", "▁cd"}},
           {"  ab cd", strip, metaspace("always"), {"▁ab", "▁cd"}},
           {" ab", replace("\\s+", "#"), first, {"▁#ab"}},
           {"  ab", replace("\\s+", "#"), first, {"#ab"}},
           {"ab", replace("^a", ""), first, {"b"}},
           {"ab", replace("\\b", "x"), first, {"▁xabx"}},
           {"aD", all_of({replace("a", "bc"), lower}), at("b"), {"▁b", "▁cd"}},
           {"\xCC\x81"
            "ab",
            {{"type", "StripAccents"}},
            first,
            {"ab"}},
           {"ab", x, first, {"▁xab"}},
           {" ab", all_of({strip, x}), first, {"xab"}},
           {"…a", {{"type", "NFKC"}}, marks, {"▁.", "▁.", "▁.", "a"}},
           {"e\xCC\x81"
            "a",
            {{"type", "NFC"}},
            first,
            {"▁éa"}},
           {"éa", {{"type", "NFD"}}, at("\xCC\x81"), {"▁e", "▁\xCC\x81", "a"}},
           {"İa",
            lower,
            at("i"),
            {"▁i", "▁\xCC\x87"
                   "a"}},
           {"中b", bert(true, true), words, {"▁中", "b"}},
           {"\x01"
            "b",
            bert(true, false),
            first,
            {"b"}},
           {"ab cd", nullptr, words, {"▁ab", "cd"}},
           {" ab cd", nullptr, words, {"ab", "cd"}},
           {"12", nullptr, digits, {"▁1", "2"}},
           {"23", one, digits, {"▁1", "▁2", "3"}},
       }) {
    EXPECT_EQ(tokens_of(c.text, c.tokens, c.normalizer, c.pre_tokenizer), c.tokens) << c.text;
  }
}

// A pattern that matches nothing at a place cuts there, or puts its replacement there.
TEST(Cuts, EmptyMatchesCut) {
  struct Case {
    const char* pattern;
    std::vector<const char*> behaviors;
    bool invert;
    Tokens tokens; // of "ab  cd"
  };
  const std::vector<const char*> every = {"Removed", "Isolated", "MergedWithPrevious",
                                          "MergedWithNext", "Contiguous"};
  const Tokens letters = {"a", "b", " ", " ", "c", "d"}, words = {"ab", "  ", "cd"};
  for (const Case& c : {Case{R"(\b)", every, false, words},
                        {R"(\b)", {"Isolated", "Contiguous", "MergedWithNext"}, true, words},
                        {R"(\b)", {"Removed"}, true, {}},
                        {R"((?=b))", every, false, {"a", "b  cd"}},
                        {R"((?<=a))", every, false, {"a", "b  cd"}},
                        {R"(x*)", every, false, letters},
                        {"", every, false, letters},
                        {R"(^|$)", every, false, {"ab  cd"}},
                        {R"(\s*)", {"Removed"}, false, {"a", "b", "c", "d"}},
                        {R"(\s*)", {"Isolated", "Contiguous"}, false, {"a", "b", "  ", "c", "d"}},
                        {R"(\s*)", {"MergedWithPrevious"}, false, {"a", "b  ", "c", "d"}},
                        {R"(\s*)", {"MergedWithPrevious"}, true, {"a", "b", "  c", "d"}},
                        {R"(\s*)", {"MergedWithNext"}, false, {"a", "b", "  c", "d"}},
                        {R"(\s*)", {"MergedWithNext"}, true, {"a", "b  ", "c", "d"}}}) {
    for (const char* behavior : c.behaviors) {
      EXPECT_EQ(
          tokens_of("ab  cd", c.tokens, nullptr, split("Regex", c.pattern, behavior, c.invert)),
          c.tokens)
          << c.pattern << " " << behavior;
    }
  }
  struct Replaced {
    const char* pattern;
    const char* text;
    std::string made;
  };
  for (const Replaced& c : {Replaced{R"(\b)", "ab  cd", "#ab#  #cd#"},
                            {R"((?=b))", "ab  cd", "a#b  cd"},
                            {"x*", "ab  cd", "#a#b# # #c#d#"},
                            {"x*", "x", "#"},
                            {"", "é", "#é#"},
                            {R"(\s*)", "ab  cd", "#a#b#c#d#"},
                            {"$", "é", "é#"},
                            {"^", "x", "#x"}}) {
    EXPECT_EQ(tokens_of(c.text, {c.made}, replace(c.pattern, "#"), nullptr), Tokens{c.made})
        << c.pattern;
  }
}

} // namespace
} // namespace dllm::text
