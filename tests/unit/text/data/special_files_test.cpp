#include "text/tokenizer/files/special_files.h"

#include "../tokenizer/byte_tokenizer.h"
#include "base/error.h"
#include "text/token_facts.h"
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace dllm::text {
namespace {

using TokenFiles = std::map<std::string, std::string>;

MemorySource source_of(const TokenFiles& files) {
  MemorySource source;
  for (const auto& [name, content] : files) source.add(name, content.data(), content.size(), true);
  return source;
}

// Bytes 0 to 255, <|endoftext|> 256, <|mask|> 257.
TokenFiles with_bytes(const TokenFiles& more) {
  TokenFiles files = more;
  files["tokenizer.json"] = make_byte_tokenizer()->to_json();
  return files;
}

struct FileCase {
  const char* name;
  TokenFiles files;
  std::vector<int32_t> end_ids; // of "<|end|>"
  std::vector<int32_t> ends;
};

// One more token, 258, whose entry and whose job stand in different files.
const FileCase kFileCases[] = {
    {"decoder and text",
     {{"tokenizer_config.json",
       R"({"eos_token": "<|end|>", "added_tokens_decoder": {"258": {"content": "<|end|>", "special": true}}})"}},
     {258},
     {258}},
    {"decoder and object",
     {{"tokenizer_config.json",
       R"({"eos_token": {"content": "<|end|>"}, "added_tokens_decoder": {"258": {"content": "<|end|>", "special": true}}})"}},
     {258},
     {258}},
    {"added tokens and map",
     {{"added_tokens.json", R"({"<|end|>": 258})"},
      {"special_tokens_map.json", R"({"eos_token": {"content": "<|end|>"}})"}},
     {258},
     {258}},
    {"numbers of generation",
     {{"added_tokens.json", R"({"<|end|>": 258})"},
      {"special_tokens_map.json", R"({"additional_special_tokens": ["<|end|>"]})"},
      {"generation_config.json", R"({"eos_token_id": [256, 258]})"}},
     {258},
     {256, 258}},
    {"number of config",
     {{"added_tokens.json", R"({"<|end|>": 258})"},
      {"special_tokens_map.json", R"({"additional_special_tokens": ["<|end|>"]})"},
      {"config.json", R"({"text_config": {"eos_token_id": 258}})"}},
     {258},
     {258}},
    {"end of a turn",
     {{"tokenizer_config.json",
       R"({"eot_token": "<|end|>", "added_tokens_decoder": {"258": {"content": "<|end|>", "special": true}}})"}},
     {258},
     {256, 258}},
    {"numbers that are no tokens",
     {{"generation_config.json", R"({"eos_token_id": [256, 9000, -1, "x"]})"}},
     {},
     {256}},
    {"nothing", {}, {}, {256}},
};

TEST(SpecialFiles, TokensAndTheirJobsMayStandInAnyFile) {
  Options options(tokenizer_schema());
  for (const FileCase& c : kFileCases) {
    SCOPED_TRACE(c.name);
    const MemorySource source = source_of(with_bytes(c.files));
    const auto tokenizer = Tokenizer::load(source, options);
    EXPECT_EQ(tokenizer->ends(), c.ends);
    EXPECT_EQ(read_token_facts(source).ends, c.ends);
    const std::vector<int32_t> ids = tokenizer->encode("<|end|>", {.parse_special = true});
    if (c.end_ids.empty())
      EXPECT_EQ(ids.size(), 7u);
    else
      EXPECT_EQ(ids, c.end_ids);
    // What is saved has all of it, but for the list of end tokens, which models carry along.
    const std::string json = tokenizer->to_json(), config = tokenizer->config_json();
    const auto again = Tokenizer::load(
        source_of({{"tokenizer.json", json}, {"tokenizer_config.json", config}}), options);
    EXPECT_EQ(again->special().eos, tokenizer->special().eos);
    EXPECT_EQ(again->encode("<|end|>", {.parse_special = true}), ids);
  }
}

// Of files without a tokenizer.json. Ids: transformers 5.24, GPT2Tokenizer and Qwen2Tokenizer.
TEST(SpecialFiles, AConfigCanAskForASpaceInFront) {
  TreeJson vocab = TreeJson::object();
  for (int b = 0; b < 256; ++b) vocab[to_utf8(byte_char(static_cast<unsigned char>(b)))] = b;
  vocab["<|x|>"] = 256;
  struct Case {
    const char* tokenizer_class;
    const char* prefix;
    std::vector<int32_t> ids; // of "a1 2<|x|>b"
  };
  const int32_t s = ' ', x = 256;
  for (const Case& c : {Case{"GPT2Tokenizer", "true", {s, 'a', '1', s, '2', x, s, 'b'}},
                        Case{"GPT2Tokenizer", "false", {'a', '1', s, '2', x, 'b'}},
                        Case{"GPT2Tokenizer", "null", {'a', '1', s, '2', x, 'b'}},
                        Case{"Qwen2Tokenizer", "true", {s, 'a', s, '1', s, s, '2', x, s, 'b'}},
                        Case{"Qwen2Tokenizer", "false", {'a', '1', s, '2', x, 'b'}}}) {
    const std::string config = fmt::format(
        R"({{"tokenizer_class": "{}", "add_prefix_space": {}, )"
        R"("added_tokens_decoder": {{"256": {{"content": "<|x|>", "special": true}}}}}})",
        c.tokenizer_class, c.prefix);
    const TokenFiles files = {{"vocab.json", vocab.dump()},
                              {"merges.txt", "#version: 0.2\n"},
                              {"config.json", "{}"},
                              {"tokenizer_config.json", config}};
    const auto tokenizer = Tokenizer::load(source_of(files), Options(tokenizer_schema()));
    EXPECT_EQ(tokenizer->encode("a1 2<|x|>b", {.parse_special = true}), c.ids) << config;
  }
}

TEST(SpecialFiles, TwoTokensForOneIdAreRefused) {
  const MemorySource source = source_of(with_bytes({{"added_tokens.json", R"({"<|end|>": 65})"}}));
  try {
    Tokenizer::load(source, Options(tokenizer_schema()));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::data_loss);
    EXPECT_NE(error.text().find("<|end|>"), std::string::npos) << error.text();
  }
}

TEST(SpecialFiles, IdsWithoutATokenAreKnown) {
  const TokenFacts facts =
      read_token_facts(source_of(with_bytes({{"added_tokens.json", R"({"<|end|>": 300})"}})));
  EXPECT_TRUE(facts.known);
  for (const auto& [id, there] : {std::pair{0, true},
                                  {257, true},
                                  {258, false},
                                  {299, false},
                                  {300, true},
                                  {301, false},
                                  {-1, false}})
    EXPECT_EQ(facts.has(id), there) << id;
  EXPECT_FALSE(read_token_facts(source_of({{"config.json", "{}"}})).known);
}

} // namespace
} // namespace dllm::text
