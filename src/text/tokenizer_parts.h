#pragma once
// Everything a tokenizer is made of, as the readers of the several file formats hand it over.

#include "text/added_tokens.h"
#include "text/bpe.h" // Merge
#include "text/json_reader.h"
#include "text/token_model.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dllm::ckpt {
struct GgufVocabulary;
}

namespace dllm::text {

// Numbers of the tokens with a job; -1: there is none.
struct SpecialIds {
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t pad = -1;
  int32_t mask = -1;
};

// One chat template; most tokenizers have one, called "default".
struct ChatSource {
  std::string name;
  std::string text;
};

struct TokenizerParts {
  std::shared_ptr<const Vocabulary>
      vocabulary; // of the model; added tokens may have numbers beyond
  std::unique_ptr<TokenModel> model;
  std::vector<AddedToken> added;
  // Components as tokenizer.json spells them; null: none.
  TreeJson normalizer, pre_tokenizer, post_processor, decoder;
  SpecialIds special;
  // Tokens with a job by their text, which wins over `special`; "" and unknown texts say nothing.
  std::vector<std::pair<int32_t SpecialIds::*, std::string>> role_names;
  std::vector<ChatSource> chat_templates;
  std::string name; // for errors: "qwen3/tokenizer.json"
};

// tokenizer.json. `name` is used in errors.
TokenizerParts read_tokenizer_json(std::string_view text, const std::string& name);
// GPT-2's pair of files: {"token": id} and one merge per line. `scheme`: a name for
// pre_tokenizer_scheme.
TokenizerParts read_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                     const std::string& name, const std::string& scheme);
// The vocabulary of a .gguf file. Fails with data_loss naming what does not fit, unimplemented for another model.
TokenizerParts read_gguf_tokenizer(const ckpt::GgufVocabulary& vocabulary);

// Fills merges given as pairs of token texts, in order of rank. Fails with data_loss naming the
// merge.
std::vector<Merge> make_merges(const Vocabulary& vocabulary,
                               const std::vector<std::pair<std::string, std::string>>& pairs,
                               const std::string& prefix, const std::string& name);

} // namespace dllm::text
