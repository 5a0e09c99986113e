#pragma once
// The smallest byte-level tokenizer: every byte is a token, plus <|endoftext|> 256, <|mask|> 257.

#include "text/tokenizer.h"
#include "text/tokenizer/parts.h"
#include "text/tokenizer/pre_tokenizer_scheme.h"
#include "text/tokenizer/token_model.h"
#include "text/unicode.h"

namespace dllm::text {

inline std::shared_ptr<Tokenizer> make_byte_tokenizer() {
  TokenizerParts parts;
  auto vocabulary = std::make_shared<Vocabulary>();
  for (int b = 0; b < 256; ++b)
    vocabulary->add(to_utf8(byte_char(static_cast<unsigned char>(b))), b, 256);
  parts.vocabulary = vocabulary;
  parts.model = std::make_unique<Bpe>(vocabulary, std::vector<Merge>{}, BpeSettings{});
  parts.added = {{.id = 256, .content = "<|endoftext|>", .special = true},
                 {.id = 257, .content = "<|mask|>", .special = true}};
  parts.pre_tokenizer = byte_level_component(true);
  parts.decoder = byte_level_component(true);
  parts.name = "bytes";
  return std::make_shared<Tokenizer>(std::move(parts), Options(tokenizer_schema()));
}

} // namespace dllm::text
