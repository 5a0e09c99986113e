#pragma once
// The vocabulary of a GGUF file, as plain data: the reader of the file (src/ckpt) fills it, the
// tokenizer is made of it.

#include <cstdint>
#include <string>
#include <vector>

namespace dllm::text {

struct TokenizerParts;

struct GgufVocabulary {
  std::string model; // tokenizer.ggml.model: "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;   // tokenizer.ggml.pre: "smollm", "llama-bpe", "qwen2", "" = default
  std::vector<std::string> tokens; // tokenizer.ggml.tokens
  std::vector<int32_t> types;      // tokenizer.ggml.token_type; empty: all normal
  std::vector<float> scores;       // tokenizer.ggml.scores; "llama" needs them
  std::vector<std::string> merges; // tokenizer.ggml.merges, "left right"; "gpt2" needs them
  int32_t bos = -1, eos = -1, pad = -1, mask = -1, unk = -1; // tokenizer.ggml.*_token_id
  bool add_bos = false, add_eos = false, add_space_prefix = true;
  std::string chat_template; // tokenizer.chat_template; may be empty
  std::string name = "gguf"; // of the file, for errors
};

// Fails with data_loss naming what does not fit, unimplemented for another model.
TokenizerParts read_gguf_vocabulary(const GgufVocabulary& vocabulary);

} // namespace dllm::text
