#include "ckpt/gguf_vocabulary.h"

#include "base/error.h"

namespace dllm::ckpt {
namespace {

std::string text_or_empty(const GgufFile& file, const char* key) {
  return file.has(key) ? file.text(key) : "";
}

std::optional<bool> flag(const GgufFile& file, const char* key) {
  if (!file.has(key)) return std::nullopt;
  return file.boolean(key);
}

std::optional<int64_t> token_id(const GgufFile& file, const char* key, size_t tokens) {
  if (!file.has(key)) return std::nullopt;
  const int64_t id = file.integer(key);
  constexpr int64_t kNone = 0xFFFFFFFF; // -1 as some converters write "no such token"
  if (id == kNone || id == -1) return std::nullopt;
  if (id < 0 || id >= static_cast<int64_t>(tokens)) {
    fail(Code::data_loss, "{}: {} is {}, the vocabulary has {} tokens", file.name(), key, id,
         tokens);
  }
  return id;
}

void check_length(const GgufFile& file, const char* key, size_t found, size_t tokens) {
  if (found != tokens) {
    fail(Code::data_loss, "{}: {} holds {} entries, expected {} as there are tokens", file.name(),
         key, found, tokens);
  }
}

} // namespace

GgufVocabulary read_gguf_vocabulary(const GgufFile& file) {
  GgufVocabulary made;
  made.name = file.name();
  made.model = file.text("tokenizer.ggml.model");
  made.pre = text_or_empty(file, "tokenizer.ggml.pre");
  made.tokens = file.texts("tokenizer.ggml.tokens");
  const size_t count = made.tokens.size();
  if (file.has("tokenizer.ggml.token_type")) {
    for (const int64_t type : file.integers("tokenizer.ggml.token_type")) {
      made.types.push_back(static_cast<int32_t>(type));
    }
    check_length(file, "tokenizer.ggml.token_type", made.types.size(), count);
  }
  if (file.has("tokenizer.ggml.scores")) {
    for (const double score : file.numbers("tokenizer.ggml.scores"))
      made.scores.push_back(static_cast<float>(score));
    check_length(file, "tokenizer.ggml.scores", made.scores.size(), count);
  }
  if (file.has("tokenizer.ggml.merges")) made.merges = file.texts("tokenizer.ggml.merges");
  made.bos = token_id(file, "tokenizer.ggml.bos_token_id", count);
  made.eos = token_id(file, "tokenizer.ggml.eos_token_id", count);
  made.eot = token_id(file, "tokenizer.ggml.eot_token_id", count);
  made.unknown = token_id(file, "tokenizer.ggml.unknown_token_id", count);
  made.padding = token_id(file, "tokenizer.ggml.padding_token_id", count);
  made.mask = token_id(file, "tokenizer.ggml.mask_token_id", count);
  made.add_bos = flag(file, "tokenizer.ggml.add_bos_token");
  made.add_eos = flag(file, "tokenizer.ggml.add_eos_token");
  made.add_space_prefix = flag(file, "tokenizer.ggml.add_space_prefix");
  made.chat_template = text_or_empty(file, "tokenizer.chat_template");
  return made;
}

} // namespace dllm::ckpt
