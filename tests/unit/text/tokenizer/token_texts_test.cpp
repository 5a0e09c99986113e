#include "text/answer/token_texts.h"

#include "../chat/answer_tokenizers.h"
#include "byte_tokenizer.h"

#include <gtest/gtest.h>

namespace dllm::text {
namespace {

using Texts = std::vector<std::string>;
constexpr auto kMasked = PositionState::masked;
constexpr auto kFinal = PositionState::final;

Texts cells_of(TokenTexts& texts, const std::vector<int32_t>& ids) {
  return texts.cells(ids, std::vector<PositionState>(ids.size(), kFinal));
}

TEST(TokenTexts, KeepTheSpaceOfAWord) {
  const auto tokenizer = make_piece_tokenizer();
  TokenTexts texts(tokenizer);
  EXPECT_EQ(texts.of(tokenizer->id("\u2581ab")), " ab");
  EXPECT_EQ(texts.of(tokenizer->id("ab")), "ab");
  EXPECT_EQ(texts.of(-3), "\u27e8-3\u27e9");
  EXPECT_EQ(texts.of(100000), "\u27e8100000\u27e9");
}

TEST(TokenTexts, NameSpecialTokensWithoutText) {
  Options options(tokenizer_schema());
  options.set_json(parse_json(R"({"skip_special": true, "mask": "<|mask|>"})", "options"));
  ckpt::GgufVocabulary v;
  v.model = "gpt2";
  v.pre = "smollm";
  for (int b = 0; b < 256; ++b)
    v.tokens.push_back(to_utf8(byte_char(static_cast<unsigned char>(b))));
  v.types.assign(256, 1);
  v.tokens.insert(v.tokens.end(), {"<|end|>", "<|mask|>", "<|tool|>"});
  v.types.insert(v.types.end(), {3, 3, 3});
  v.eos = 256;
  TokenTexts texts(Tokenizer::from_gguf(v, options));
  EXPECT_EQ(texts.of(256), "<eos>");
  EXPECT_EQ(texts.of(257), "<mask>");
  EXPECT_EQ(texts.of(258), "\u27e8258\u27e9");
}

TEST(TokenTexts, JoinTheTokensOfACharacter) {
  TokenTexts texts(make_byte_tokenizer());
  EXPECT_EQ(cells_of(texts, {'x', 0xF0, 0x9F, 0x98, 0x80, 'y'}),
            (Texts{"x", "\U0001F600", "", "", "", "y"}));
  EXPECT_EQ(cells_of(texts, {0xC3, 0xA9, 0xC3, 0xA9}), (Texts{"\u00e9", "", "\u00e9", ""}));
  // Broken bytes stay what they are.
  EXPECT_EQ(cells_of(texts, {0xC3, 'a', 0xA9}), (Texts{"\uFFFD", "a", "\uFFFD"}));
  EXPECT_EQ(cells_of(texts, {}), Texts{});
}

TEST(TokenTexts, JoinNothingAcrossAMaskedPosition) {
  TokenTexts texts(make_byte_tokenizer());
  const std::vector<int32_t> ids{0xE2, 0x82, 0xAC};
  EXPECT_EQ(texts.cells(ids, std::vector{kFinal, kMasked, kFinal}),
            (Texts{"\uFFFD", "", "\uFFFD"}));
  EXPECT_EQ(texts.cells(ids, std::vector(3, PositionState::provisional)),
            (Texts{"\u20ac", "", ""}));
}

} // namespace
} // namespace dllm::text
