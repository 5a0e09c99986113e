#pragma once
// TokenizerParts is what the readers of the file formats return. This header also declares these
// readers.

#include "text/json_reader.h"
#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/token_model.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dllm::ckpt {
struct GgufVocabulary;
} // namespace dllm::ckpt

namespace dllm::text {

// Ids of the tokens that have a role; -1: the role has no token.
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
  // The vocabulary of the model. The ids of added tokens may be beyond it.
  std::shared_ptr<const Vocabulary> vocabulary;
  std::unique_ptr<TokenModel> model;
  std::vector<AddedToken> added;
  // Components in the form of tokenizer.json; null without the component.
  TreeJson normalizer, pre_tokenizer, post_processor, decoder;
  SpecialIds special;
  // Roles by the text of the token, which have priority over `special`. "" and unknown texts are
  // ignored.
  std::vector<std::pair<int32_t SpecialIds::*, std::string>> role_names;
  // Tokens that end an answer in addition to eos, by id and by text. Unknown ids and texts are
  // ignored.
  std::vector<int64_t> ends;
  std::vector<std::string> end_names;
  std::vector<ChatSource> chat_templates;
  std::string name; // name in errors: "qwen3/tokenizer.json"
};

// Reads a tokenizer.json. `name` is its name in errors.
TokenizerParts read_tokenizer_json(std::string_view text, const std::string& name);
// Reads the pair of files of GPT-2: {"token": id}, and one merge per line. `scheme` is a name of
// pre_tokenizer_schemes().
TokenizerParts read_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                     const std::string& name, const std::string& scheme);
// Makes the parts from the vocabulary of a .gguf file. Fails with data_loss naming the fault, and
// with unimplemented for an unknown tokenizer model.
TokenizerParts read_gguf_tokenizer(const ckpt::GgufVocabulary& vocabulary);

// Makes merges from pairs of token texts in order of rank. Fails with data_loss naming the merge.
std::vector<Merge> make_merges(const Vocabulary& vocabulary,
                               const std::vector<std::pair<std::string, std::string>>& pairs,
                               const std::string& prefix, const std::string& name);

} // namespace dllm::text
