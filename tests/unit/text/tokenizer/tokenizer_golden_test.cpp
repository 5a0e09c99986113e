// Token numbers, texts and streams equal to the tokenizers library (goldens torch/tokenizers).
#include "golden.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

#include <gtest/gtest.h>

#include <map>

namespace dllm::text {
namespace {

class TokenizerGolden : public ::testing::TestWithParam<const char*> {
protected:
  void SetUp() override {
    const std::string folder = golden_path("torch/tokenizers/");
    if (!file_exists(folder + "strings.json")) GTEST_SKIP() << "no goldens at " << folder;
    const std::string name = GetParam();
    std::string path = folder + name + ".tokenizer.json";
    if (!file_exists(path)) path = asset_path("tokenizers/" + name);
    if (!file_exists(path) && !is_directory(path)) {
      GTEST_SKIP() << name << " is not stored: run scripts/fetch-assets";
    }
    // the large ones take a second under ASan
    static std::map<std::string, std::shared_ptr<Tokenizer>> loaded;
    auto& tokenizer = loaded[name];
    if (tokenizer == nullptr) tokenizer = Tokenizer::load(path, Options(tokenizer_schema()));
    tokenizer_ = tokenizer;
    for (const TreeJson& s : read_json(folder + "strings.json"))
      strings_.push_back(s.get<std::string>());
    want_ = read_json(folder + name + ".json");
  }

  std::vector<int32_t> encode(const std::string& text, bool special = false) const {
    return tokenizer_->encode(text, {.add_special = special, .parse_special = true});
  }

  std::shared_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> strings_;
  TreeJson want_;
};

TEST_P(TokenizerGolden, Ids) {
  ASSERT_GT(want_["ids"].size(), 100u);
  for (const auto& [index, ids] : want_["ids"].items()) {
    EXPECT_EQ(encode(strings_.at(std::stoul(index))), ids.get<std::vector<int32_t>>())
        << "string " << index;
  }
  for (const auto& [index, ids] : want_["with_special_tokens"].items()) {
    EXPECT_EQ(encode(strings_.at(std::stoul(index)), true), ids.get<std::vector<int32_t>>())
        << "string " << index;
  }
}

TEST_P(TokenizerGolden, Pairs) {
  for (const auto& [key, pair] : want_["pair"].items()) {
    const size_t comma = key.find(',');
    const Encoding got = tokenizer_->encode_pair(strings_.at(std::stoul(key)),
                                                 strings_.at(std::stoul(key.substr(comma + 1))),
                                                 {.parse_special = true});
    EXPECT_EQ(got.ids, pair["ids"].get<std::vector<int32_t>>()) << key;
    EXPECT_EQ(got.types, pair["type_ids"].get<std::vector<int32_t>>()) << key;
  }
}

TEST_P(TokenizerGolden, Decode) {
  const TreeJson& differs = want_["decode_differs"];
  for (const auto& [index, ids] : want_["ids"].items()) {
    const std::string& text = strings_.at(std::stoul(index));
    const auto numbers = ids.get<std::vector<int32_t>>();
    const std::string whole = differs.value(index, text);
    EXPECT_EQ(tokenizer_->decode(numbers, {}), whole) << "string " << index;
    EXPECT_EQ(tokenizer_->decode(numbers, {.skip_special = true}),
              differs.value(index + ".skip", whole))
        << "string " << index;
  }
  for (const TreeJson& item : want_["random_ids"]) {
    const auto numbers = item["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer_->decode(numbers, {}), item["text"].get<std::string>());
    EXPECT_EQ(tokenizer_->decode(numbers, {.skip_special = true}),
              item["text_skip"].get<std::string>());
  }
}

TEST_P(TokenizerGolden, PrefixDecode) {
  for (const auto& [index, texts] : want_["prefix_decode"].items()) {
    const auto ids = want_["ids"][index].get<std::vector<int32_t>>();
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer_->decode(std::span(ids).first(i + 1), {}), texts[i].get<std::string>())
          << "string " << index << " prefix " << i + 1;
    }
  }
}

// The reference shows nothing while a text ends in U+FFFD; decode_stream holds back only what may
// still become whole.
TEST_P(TokenizerGolden, Stream) {
  for (const auto& [index, stream] : want_["stream"].items()) {
    const auto ids = want_["ids"][index].get<std::vector<int32_t>>();
    std::string shown, want;
    for (size_t i = 0; i < stream["chunks"].size(); ++i) {
      const TreeJson& chunk = stream["chunks"][i];
      if (chunk.is_string()) want += chunk.get<std::string>();
      int64_t used = 0;
      shown = tokenizer_->decode_stream(std::span(ids).first(i + 1), {}, used);
      EXPECT_TRUE(is_valid_utf8(shown));
      EXPECT_EQ(shown, want) << "string " << index << " after " << i + 1 << " ids";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerGolden,
                         ::testing::Values("tiny-bpe", "tiny-bpe-split", "tiny-bpe-bytefallback",
                                           "tiny-wordpiece", "tiny-unigram", "qwen3", "llama3_1",
                                           "gpt2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

} // namespace
} // namespace dllm::text
