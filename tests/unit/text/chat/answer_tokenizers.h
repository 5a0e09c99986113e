#pragma once
// Tokenizers whose tokens are whole words, single bytes, and pieces of characters.

#include "base/random.h"
#include "ckpt/gguf/gguf.h"
#include "text/tokenizer.h"
#include "text/tokenizer/token_model.h"
#include "text/unicode.h"

#include <memory>
#include <string>

namespace dllm::text {

// Byte-level BPE with random merges of bytes, so that tokens begin and end inside characters. Token
// <eos> is the last one.
inline std::shared_ptr<Tokenizer> make_merged_tokenizer(uint64_t seed) {
  ckpt::GgufVocabulary v;
  v.model = "gpt2";
  v.pre = "smollm";
  for (int b = 0; b < 256; ++b)
    v.tokens.push_back(to_utf8(byte_char(static_cast<unsigned char>(b))));
  const std::string bytes = "ab .\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  for (uint64_t i = 0; i < 40; ++i) {
    const auto pick = [&](uint64_t word) {
      const uint32_t bits = random_bits_at(make_key(seed), 2 * i + word);
      if (bits % 3 == 0 && v.tokens.size() > 256)
        return v.tokens[256 + bits % (v.tokens.size() - 256)];
      const char byte = bytes[(bits >> 8) % bytes.size()];
      return to_utf8(byte_char(static_cast<unsigned char>(byte)));
    };
    const std::string left = pick(0), right = pick(1);
    if (std::ranges::find(v.tokens, left + right) != v.tokens.end()) continue;
    v.merges.push_back(left + " " + right);
    v.tokens.push_back(left + right);
  }
  v.types.assign(v.tokens.size(), 1);
  v.eos = static_cast<int64_t>(v.tokens.size());
  v.tokens.emplace_back("<eos>");
  v.types.push_back(3);
  return Tokenizer::from_gguf(v, Options(tokenizer_schema()));
}

// SentencePiece with byte tokens. Ids: 0 <unk>, 1 <s>, 2 </s>, 3 to 258 bytes, then pieces.
inline std::shared_ptr<Tokenizer> make_piece_tokenizer() {
  ckpt::GgufVocabulary v;
  v.model = "llama";
  v.tokens = {"<unk>", "<s>", "</s>"};
  v.types = {2, 3, 3};
  for (int b = 0; b < 256; ++b)
    v.tokens.push_back(byte_token(static_cast<unsigned char>(b))), v.types.push_back(6);
  for (const char* piece : {"\u2581", "a", "b", "c", ".", "ab", "\u2581a", "\u2581ab", "\u00e9"})
    v.tokens.emplace_back(piece), v.types.push_back(1);
  for (size_t i = 0; i < v.tokens.size(); ++i) v.scores.push_back(-static_cast<float>(i));
  v.unknown = 0, v.bos = 1, v.eos = 2;
  v.add_bos = true;
  Options options(tokenizer_schema());
  options.set_i64("add_start", 1);
  return Tokenizer::from_gguf(v, options);
}

} // namespace dllm::text
