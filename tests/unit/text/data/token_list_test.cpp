#include "text/tokenizer.h"

#include "base/error.h"
#include "base/json.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dllm::text {
namespace {

using Names = std::vector<std::string>;

const char* const kBpe =
    R"({"added_tokens": [{"id": 3, "content": "<m>", "special": true}, {"content": "<n>"}, 7], "version": "1.0",
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "\u00e9": 2, "x": "no id"}, "merges": [["a", "b"]]}})";
const char* const kUnigram =
    R"({"model": {"vocab": [["<unk>", 0], ["a", -1.5], 3, ["b", -2]]}, "added_tokens": null})";

TEST(TokenList, FindsTheFirstNameThatIsAToken) {
  const auto find = [](std::string_view json, Names names) { return find_token(json, names); };
  EXPECT_EQ(find(kBpe, {"<m>"}), 3);
  EXPECT_EQ(find(kBpe, {"none", "b", "<m>"}), 1);
  EXPECT_EQ(find(kUnigram, {"b"}), 3);
  EXPECT_EQ(find(kUnigram, {"<unk>"}), 0);
  for (const char* name : {"none", "x", "<n>", "special", "BPE", ""})
    EXPECT_EQ(find(kBpe, {name}), std::nullopt) << name;
  EXPECT_EQ(find("no JSON at all", {"<m>"}), std::nullopt); // nothing stands in it
  EXPECT_THROW(find("no JSON but <m>", {"<m>"}), Error);
}

TEST(TokenList, CountsToTheLargestId) {
  EXPECT_EQ(count_tokens(kBpe), 4);
  EXPECT_EQ(count_tokens(kUnigram), 4);
  EXPECT_EQ(count_tokens("{}"), 0);
  for (const char* bad : {"", "[]", "{", R"({"model": {"vocab": {"a": 0})"})
    EXPECT_THROW(count_tokens(bad), Error) << bad;
}

TEST(TokenList, AddsTheMaskTokenAndLeavesTheRestAsItIs) {
  for (const std::string& before :
       {std::string(kBpe), std::string(kUnigram), std::string("{}"), std::string("\n{ }"),
        std::string(R"({"model": {"vocab": {}}})"), std::string(R"({"added_tokens": []})"),
        std::string(R"({"added_tokens": [ ], "model": 3})")}) {
    const std::string after = add_mask_token(before, 9);
    EXPECT_EQ(find_token(after, Names{kMaskToken}), 9) << after;
    Json was = parse_json(before, "before"), is = parse_json(after, "after");
    const Json& added = is.at("added_tokens");
    const Json expected = parse_json(
        R"({"id": 9, "content": "<|mask|>", "single_word": false, "lstrip": false, "rstrip": false,
 "normalized": false, "special": true})",
        "entry");
    EXPECT_EQ(added.back(), expected) << after;
    const size_t old = was.contains("added_tokens") && was["added_tokens"].is_array()
                           ? was["added_tokens"].size()
                           : 0;
    EXPECT_EQ(added.size(), old + 1) << after;
    was.erase("added_tokens");
    is.erase("added_tokens");
    EXPECT_EQ(was, is) << after;
  }
}

TEST(TokenList, NamesTheMaskTokenInTheConfig) {
  const Json named = parse_json(
      name_mask_token(R"({"eos_token": "e", "added_tokens_decoder": {"1": {}}})", 9), "config");
  EXPECT_EQ(named.at("mask_token"), kMaskToken);
  EXPECT_EQ(named.at("eos_token"), "e");
  EXPECT_EQ(named.at("added_tokens_decoder").at("9").at("content"), kMaskToken);
  EXPECT_FALSE(named.at("added_tokens_decoder").at("9").contains("id"));
  EXPECT_FALSE(parse_json(name_mask_token("{}", 9), "config").contains("added_tokens_decoder"));
  EXPECT_EQ(name_mask_token("[1]", 9), "[1]");
}

} // namespace
} // namespace dllm::text
